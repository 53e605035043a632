// The products of a few rows of a matrix, which lie side by side, with rows of activations.

#pragma once

#include "vectors.h"

namespace {

#ifdef __x86_64__
// Eight numbers at a time: wider vectors take longer here, where one row of activations is multiplied.
// A processor foresees where one row goes on, but not four at once, so what follows them is brought nearer meanwhile.
template <typename N>
inline void dots_of_four(const N* w, const float* x, int64_t n, float* found) {
    constexpr int64_t STEP = 16, BYTES = 4 * STEP * sizeof(N), FURTHER = 2048;
    __m256 sums[4][2] = {};
    int64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        const char* next = reinterpret_cast<const char*>(w + 4 * (n + i)) + FURTHER;
        for (int64_t line = 0; line < BYTES; line += CACHE_LINE) __builtin_prefetch(next + line);
        const __m256 first = eight_at(x + i), second = eight_at(x + i + STEP / 2);
#pragma GCC unroll 4
        for (int o = 0; o < 4; o++) {
            sums[o][0] = _mm256_fmadd_ps(eight_at(w + o * n + i), first, sums[o][0]);
            sums[o][1] = _mm256_fmadd_ps(eight_at(w + o * n + i + STEP / 2), second, sums[o][1]);
        }
    }
    auto of = [&](int o) { return _mm256_add_ps(sums[o][0], sums[o][1]); };
    store_sums_of_eight(found, of(0), of(1), of(2), of(3));
    for (; i < n; i++)
        for (int o = 0; o < 4; o++) found[o] += number_at(w + o * n + i) * x[i];
}
#else
template <typename N>
inline void dots_of_four(const N* w, const float* x, int64_t n, float* found) {
    for (int o = 0; o < 4; o++) found[o] = dot(w + o * n, x, n);
}
#endif

// The products of one row of W with four rows of x, which lie side by side too; `by` numbers from one to the next.
template <typename N>
inline void dots_with_four(const N* w, const float* x, int64_t n, float* found, int64_t by) {
    Floats sums[4][2] = {};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int j = 0; j < 2; j++) {
            const Floats each = vector_at(w + i + j * LANES);
            for (int r = 0; r < 4; r++) sums[r][j] += each * floats_at(x + r * n + i + j * LANES);
        }
    float all[4];
    store_sums(all, sums[0][0] + sums[0][1], sums[1][0] + sums[1][1], sums[2][0] + sums[2][1], sums[3][0] + sums[3][1]);
    for (int r = 0; r < 4; r++) {
        for (int64_t rest = i; rest < n; rest++) all[r] += number_at(w + rest) * x[r * n + rest];
        found[r * by] = all[r];
    }
}

}  // namespace
