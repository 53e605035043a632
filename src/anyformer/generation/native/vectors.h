// Vectors as wide as the processor's, and the numbers of weights as such.

#pragma once

#include "words.h"

namespace {

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif
typedef float Floats __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t Pairs __attribute__((vector_size(LANES * 4), aligned(4), may_alias));  // of numbers in bf16
typedef uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

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
inline Floats vector_at(const uint16_t* p) {
    return as_floats(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Pairs) << 16);
}
#ifdef __AVX512F__
inline Floats vector_at(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Integers bytes_at(const uint8_t* p) {
    return Integers(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#else
inline Floats vector_at(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Integers bytes_at(const uint8_t* p) {
    return Integers(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
#endif
inline float number_at(const float* p) { return *p; }
inline float number_at(const uint16_t* p) { return from_bfloat16(*p); }
inline float number_at(const int8_t* p) { return float(*p); }

inline float sum_of(Floats x) {
#ifdef __AVX512F__
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), upper);
#else
    const __m256 eight = x;
#endif
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// The sums of four vectors.
inline __m128 sums_of_eights(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 each = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(each), _mm256_extractf128_ps(each, 1));
}
inline __m128 sums_of(Floats a, Floats b, Floats c, Floats d) {
#ifdef __AVX512F__
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 each = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(each), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(each), upper);
    return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
    return sums_of_eights(a, b, c, d);
#endif
}

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

// Eight numbers: the products of four rows with one wait for memory, and come sooner by these than by wider vectors.
inline __m256 eight_at(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 eight_at(const uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline __m256 eight_at(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// The products of four rows, which lie side by side, with one other. A processor foresees where one row goes on, but not four at
// once, so what follows them is brought nearer meanwhile.
template <typename N>
inline void dots_of_four(const N* a, const float* b, int64_t n, float* found) {
    constexpr int64_t STEP = 16, BYTES = 4 * STEP * sizeof(N), FURTHER = 2048, CACHE_LINE = 64;
    __m256 sums[4][2] = {};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        const char* next = reinterpret_cast<const char*>(a + 4 * (n + i)) + FURTHER;
        for (int64_t line = 0; line < BYTES; line += CACHE_LINE) __builtin_prefetch(next + line);
        const __m256 first = eight_at(b + i), second = eight_at(b + i + STEP / 2);
#pragma GCC unroll 4
        for (int o = 0; o < 4; o++) {
            sums[o][0] = _mm256_fmadd_ps(eight_at(a + o * n + i), first, sums[o][0]);
            sums[o][1] = _mm256_fmadd_ps(eight_at(a + o * n + i + STEP / 2), second, sums[o][1]);
        }
    }
    auto of = [&](int o) { return _mm256_add_ps(sums[o][0], sums[o][1]); };
    _mm_storeu_ps(found, sums_of_eights(of(0), of(1), of(2), of(3)));
    for (; i < n; i++)
        for (int o = 0; o < 4; o++) found[o] += number_at(a + o * n + i) * b[i];
}

// The products of one row with COUNT others, which lie `apart` numbers from one another.
template <int COUNT, typename N>
inline void dots(const N* a, const float* b, int64_t apart, int64_t n, float* found, int64_t by) {
    Floats sums[COUNT][2] = {};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int j = 0; j < 2; j++) {
            const Floats x = vector_at(a + i + j * LANES);
            for (int r = 0; r < COUNT; r++) sums[r][j] += x * floats_at(b + r * apart + i + j * LANES);
        }
    for (int r = 0; r < COUNT; r++) {
        float sum = sum_of(sums[r][0] + sums[r][1]);
        for (int64_t rest = i; rest < n; rest++) sum += number_at(a + rest) * b[r * apart + rest];
        found[r * by] = sum;
    }
}

}  // namespace
