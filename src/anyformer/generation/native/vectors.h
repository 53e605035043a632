// Vectors as wide as the processor's, and the numbers of weights as such. What an architecture alone can say stands in a file of
// its own: how numbers of 16, 8 and 4 bits become those of 32, `sum_of` a vector, and `store_sums` of four vectors.

#pragma once

#include "words.h"

namespace {

#ifdef __AVX512F__
constexpr int LANES = 16;
#elif defined(__x86_64__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int64_t CACHE_LINE = 64;  // bytes that come nearer together
typedef float Floats __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t Pairs __attribute__((vector_size(LANES * 4), aligned(4), may_alias));  // of numbers in bf16

inline Floats all(float x) { return x - Floats{}; }
inline Floats floats_at(const float* p) { return *reinterpret_cast<const Floats*>(p); }
inline Floats& floats_at(float* p) { return *reinterpret_cast<Floats*>(p); }
inline Pairs pairs_at(const void* p) { return *static_cast<const Pairs*>(p); }
inline Floats as_floats(Pairs bits) {
    Floats x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}
inline Floats lower(Pairs x) { return as_floats(x << 16); }
inline Floats upper(Pairs x) { return as_floats(x & 0xffff0000u); }

// As many numbers from where they lie in one of the kinds that weights and caches have.
inline Floats vector_at(const float* p) { return floats_at(p); }
inline float number_at(const float* p) { return *p; }
inline float number_at(const uint16_t* p) { return from_bfloat16(*p); }
inline float number_at(const int8_t* p) { return float(*p); }

}  // namespace

#ifdef __x86_64__
#include "vectors_x86.h"
#else
#include "vectors_arm.h"
#endif

namespace {

template <typename N>
inline float dot(const N* a, const float* b, int64_t n) {
    Floats sums[4] = {};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int j = 0; j < 4; j++) sums[j] += vector_at(a + i + j * LANES) * floats_at(b + i + j * LANES);
    for (; i + LANES <= n; i += LANES) sums[0] += vector_at(a + i) * floats_at(b + i);
    float sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < n; i++) sum += number_at(a + i) * b[i];
    return sum;
}

}  // namespace
