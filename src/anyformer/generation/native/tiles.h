// Products of many rows of activations with rows of a matrix, several of each at once, on processors with AVX2 alone: the wider
// vectors of others gain nothing here.

#pragma once

#include "rows.h"
#include "vectors.h"

namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
#define BY_TILES 1
constexpr int64_t DEPTH = 256;  // inputs of 16 rows of x, and of TALL of the matrix, that lie in the nearest cache together
constexpr int64_t MOST_TOGETHER = 32;  // rows of x for which a part of the matrix is converted once
constexpr int TALL = 3, WIDE = 4;  // rows of the matrix and of x whose 12 sums stay in 16 registers, beside TALL vectors and one

// Numbers from one row of x to the next such that no two of 16 rows lie in the same lines of a cache: an odd number of lines apart.
inline int64_t apart_in_cache(int64_t inputs) {
    constexpr int64_t line = CACHE_LINE / sizeof(float);
    return ((inputs + line - 1) / line | 1) * line;
}

// Adds to the sums of SEVERAL rows of w with COUNT rows of x: of `n` inputs, which are whole vectors.
template <int SEVERAL, int COUNT>
inline void add_tile(const float* w, int64_t by_w, const float* x, int64_t by_x, int64_t n, bool first, Floats* sums, int64_t by_sums) {
    Floats found[SEVERAL][COUNT];
#pragma GCC unroll 4
    for (int o = 0; o < SEVERAL; o++)
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) found[o][r] = first ? Floats{} : sums[o * by_sums + r];
    for (int64_t i = 0; i < n; i += LANES) {
        Floats each[SEVERAL];
#pragma GCC unroll 4
        for (int o = 0; o < SEVERAL; o++) each[o] = floats_at(w + o * by_w + i);
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) {
            const Floats own = floats_at(x + r * by_x + i);
#pragma GCC unroll 4
            for (int o = 0; o < SEVERAL; o++) found[o][r] += each[o] * own;
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < SEVERAL; o++)
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) sums[o * by_sums + r] = found[o][r];
}

// The same of all rows of x; `sums` are (row of w, row of x). In between `count` lines from `next` on come nearer: all of them at
// once would keep others waiting.
template <int SEVERAL>
inline void add_tiles(const float* w, int64_t by_w, const float* x, int64_t rows, int64_t by_x, int64_t n, bool first, Floats* sums,
                      const char* next, int64_t count) {
    const int64_t tiles = (rows + WIDE - 1) / WIDE;
    for (int64_t t = 0, r = 0; t < tiles; t++, r += WIDE) {
        for (int64_t line = count * t / tiles; line < count * (t + 1) / tiles; line++) __builtin_prefetch(next + line * CACHE_LINE, 0, 2);
        switch (std::min<int64_t>(WIDE, rows - r)) {
            case WIDE: add_tile<SEVERAL, WIDE>(w, by_w, x + r * by_x, by_x, n, first, sums + r, rows); break;
            case 3: add_tile<SEVERAL, 3>(w, by_w, x + r * by_x, by_x, n, first, sums + r, rows); break;
            case 2: add_tile<SEVERAL, 2>(w, by_w, x + r * by_x, by_x, n, first, sums + r, rows); break;
            case 1: add_tile<SEVERAL, 1>(w, by_w, x + r * by_x, by_x, n, first, sums + r, rows); break;
        }
    }
}

// found[r * by + o] = the product of row o of w with row r of x, which begin `by_w` and `by_x` numbers apart. Rows of w become fp32
// by DEPTH inputs at a time, once for all rows of x; as much of what lies behind them comes nearer meanwhile.
template <typename N>
void by_tiles(const N* w, int64_t outputs, int64_t by_w, const float* x, int64_t rows, int64_t by_x, int64_t inputs, float* found,
              int64_t by) {
    alignas(64) float numbers[TALL * DEPTH];
    const int64_t whole = inputs / LANES * LANES;
    const char* next = reinterpret_cast<const char*>(w + outputs * by_w);
    Floats* const sums = reinterpret_cast<Floats*>(room<1>(outputs * rows * LANES));
    for (int64_t i = 0; i == 0 || i < whole; i += DEPTH) {
        const int64_t n = std::min(DEPTH, whole - i);
        for (int64_t o = 0; o < outputs;) {
            const int64_t some = o + TALL <= outputs ? TALL : 1;
            const N* const from = w + o * by_w + i;
            if constexpr (sizeof(N) < sizeof(float))
                for (int64_t k = 0; k < some; k++)
                    for (int64_t e = 0; e < n; e += LANES) floats_at(numbers + k * DEPTH + e) = vector_at(from + k * by_w + e);
            const int64_t lines = some * n * int64_t(sizeof(N)) / CACHE_LINE;
            const float* own = numbers;
            int64_t by_own = DEPTH;
            if constexpr (sizeof(N) == sizeof(float)) own = from, by_own = by_w;
            if (some == TALL)
                add_tiles<TALL>(own, by_own, x + i, rows, by_x, n, i == 0, sums + o * rows, next, lines);
            else
                add_tiles<1>(own, by_own, x + i, rows, by_x, n, i == 0, sums + o * rows, next, lines);
            o += some, next += lines * CACHE_LINE;
        }
    }
    for (int64_t o = 0; o < outputs; o++) {
        const Floats* const own = sums + o * rows;
        float* const to = found + o;
        int64_t r = 0;
        for (; r + 4 <= rows; r += 4) {
            float four[4];
            store_sums(four, own[r], own[r + 1], own[r + 2], own[r + 3]);
            for (int k = 0; k < 4; k++) to[(r + k) * by] = four[k];
        }
        for (; r < rows; r++) to[r * by] = sum_of(own[r]);
        for (int64_t i = whole; i < inputs; i++)
            for (r = 0; r < rows; r++) to[r * by] += number_at(w + o * by_w + i) * x[r * by_x + i];
    }
}
#endif

}  // namespace
