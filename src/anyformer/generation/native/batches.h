// Products of activations: batches of matrices.

#pragma once

#include "few_rows.h"
#include "rows.h"
#include "tiles.h"

namespace {

constexpr int64_t STRIP = 64;  // columns of a task
constexpr int64_t WIDE_STRIP = 4 * STRIP;  // of a task of one row
constexpr int64_t TOGETHER = 4;  // rows of a whose sums stay in registers beside one another

// Calls `body(COUNT, first)` for all rows, as many together as may be; COUNT is known when this is compiled.
template <typename Body>
inline void together(int64_t rows, Body body) {
    int64_t first = 0;
    for (; first + TOGETHER <= rows; first += TOGETHER) body(std::integral_constant<int, TOGETHER>(), first);
    switch (rows - first) {
        case 3: return body(std::integral_constant<int, 3>(), first);
        case 2: return body(std::integral_constant<int, 2>(), first);
        case 1: return body(std::integral_constant<int, 1>(), first);
    }
}

// Sums over k of a[r][k] w[k, n] for COUNT rows of a and WIDTH vectors of columns that lie side by side.
template <typename N, int COUNT, int WIDTH>
inline void add_columns(const char* first, int64_t by_depth, const float* a, int64_t depth, float* sums) {
    Floats found[COUNT][WIDTH] = {};
    for (int64_t k = 0; k < depth; k++) {
        const N* row = reinterpret_cast<const N*>(first + k * by_depth);
#pragma GCC unroll 8
        for (int j = 0; j < WIDTH; j++) {
            const Floats w = vector_at(row + j * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < COUNT; r++) found[r][j] += w * a[r * depth + k];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++)
#pragma GCC unroll 8
        for (int j = 0; j < WIDTH; j++) floats_at(sums + r * STRIP + j * LANES) = found[r][j];
}

template <typename N, int COUNT>
void add_columns(const char* first, int64_t by_depth, const float* a, int64_t depth, float* sums, int64_t count) {
    constexpr int MOST = LANES != 8 || COUNT == 2 ? 4 : COUNT == 1 ? 8 : 2;  // 16 registers keep 8 sums, w and a number of a
    int64_t n = 0;
    for (; n + MOST * LANES <= count; n += MOST * LANES) add_columns<N, COUNT, MOST>(first + n * sizeof(N), by_depth, a, depth, sums + n);
    for (; n + 2 * LANES <= count; n += 2 * LANES) add_columns<N, COUNT, 2>(first + n * sizeof(N), by_depth, a, depth, sums + n);
    for (; n + LANES <= count; n += LANES) add_columns<N, COUNT, 1>(first + n * sizeof(N), by_depth, a, depth, sums + n);
    for (; n < count; n++)
        for (int r = 0; r < COUNT; r++) {
            float sum = 0;
            for (int64_t k = 0; k < depth; k++) {
                sum += a[r * depth + k] * number_at(reinterpret_cast<const N*>(first + k * by_depth) + n);
            }
            sums[r * STRIP + n] = sum;
        }
}

// Adds a[r] w[r, n] of COUNT rows of w to sums of whole vectors of columns; rows that follow are brought nearer meanwhile.
template <typename N, int COUNT>
inline void add_rows(const char* first, int64_t by_depth, const float* a, float* sums, int64_t count) {
    constexpr int64_t FURTHER = 16;  // rows
    auto row = [=](int64_t r) { return first + r * by_depth; };
    Floats by[COUNT];
    for (int r = 0; r < COUNT; r++) {
        by[r] = all(a[r]);
        for (int64_t line = 0; line < count * int64_t(sizeof(N)); line += CACHE_LINE) __builtin_prefetch(row(FURTHER + r) + line);
    }
    for (int64_t n = 0; n < count; n += LANES) {
        Floats sum = floats_at(sums + n);
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) sum += vector_at(reinterpret_cast<const N*>(row(r)) + n) * by[r];
        floats_at(sums + n) = sum;
    }
}

// The same as `add_columns` of one row, by rows of w, four together.
template <typename N>
void add_all_rows(const char* first, int64_t by_depth, const float* a, int64_t depth, float* sums, int64_t count) {
    std::fill_n(sums, count, 0.0f);
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) add_rows<N, 4>(first + k * by_depth, by_depth, a + k, sums, count);
    for (; k < depth; k++) add_rows<N, 1>(first + k * by_depth, by_depth, a + k, sums, count);
}

// Products of COUNT rows with a column whose numbers lie side by side.
template <int COUNT, typename N>
inline void whole_column(const N* column, const float* a, int64_t depth, float* sums) {
    if constexpr (COUNT == 4)
        dots_with_four(column, a, depth, sums, STRIP);
    else
        for (int r = 0; r < COUNT; r++) sums[r * STRIP] = dot(column, a + r * depth, depth);
}

// The same of matrices whose columns lie in other ways.
template <int COUNT>
void apart_columns(const Strided& w, const char* first, const float* a, int64_t depth, float* sums, int64_t count, float* spare) {
    for (int64_t n = 0; n < count; n++) {
        const char* column = first + n * w.strides[2];
        if (w.kind == BFLOAT16 && w.strides[1] == 2)
            whole_column<COUNT>(reinterpret_cast<const uint16_t*>(column), a, depth, sums + n);
        else
            whole_column<COUNT>(loaded(column, w.kind, w.strides[1], depth, spare), a, depth, sums + n);
    }
}

// Sums over k of a[r][k] w[k, n], for `count` columns that begin at `first`; the sums of rows lie STRIP apart.
template <int COUNT>
void columns(const Strided& w, const char* first, const float* a, int64_t depth, float* sums, int64_t count, float* spare) {
    const bool beside = w.strides[2] == bytes(w.kind);
    if (beside && w.kind == FLOAT32)
        add_columns<float, COUNT>(first, w.strides[1], a, depth, sums, count);
    else if (beside && w.kind == BFLOAT16)
        add_columns<uint16_t, COUNT>(first, w.strides[1], a, depth, sums, count);
    else
        apart_columns<COUNT>(w, first, a, depth, sums, count, spare);
}

#ifdef BY_TILES
// Whether the numbers of a column lie side by side, as those of a row of W do in x W^T.
inline bool tiled(const Strided& w) {
    return (w.kind == BFLOAT16 || w.kind == FLOAT32) && w.strides[1] == bytes(w.kind) && w.strides[2] % bytes(w.kind) == 0;
}

template <typename Read, typename Put>
void by_tiles_of_columns(const Strided& w, const char* first, int64_t rows, int64_t count, int64_t depth, Read read, Put put) {
    const int64_t apart = apart_in_cache(depth), by_column = w.strides[2] / bytes(w.kind);
    float *const own = room(MOST_TOGETHER * apart), *const sums = room<3>(MOST_TOGETHER * STRIP);
    for (int64_t row = 0; row < rows; row += MOST_TOGETHER) {
        const int64_t some = std::min(MOST_TOGETHER, rows - row);
        read(row, some, own, apart);
        if (w.kind == BFLOAT16)
            by_tiles(reinterpret_cast<const uint16_t*>(first), count, by_column, own, some, apart, depth, sums, STRIP);
        else
            by_tiles(reinterpret_cast<const float*>(first), count, by_column, own, some, apart, depth, sums, STRIP);
        put(row, some, sums);
    }
}
#endif

// batch, rows, columns, depth; whether something is added, factor of the product, factor of that; the result (batch, row,
// column), a (batch, row, depth), w (batch, depth, column) and what is added (batch, row, column).
void matrix_product(Words& words, Lanes& lanes) {
    const int64_t batch = words.next(), rows = words.next(), across = words.next(), depth = words.next(), adds = words.next();
    const float factor = words.number(), other = words.number();
    const Strided y = strided(words, 3), a = strided(words, 3), w = strided(words, 3);
    const Strided c = adds ? strided(words, 3) : y;
    const bool known = w.kind == FLOAT32 || w.kind == BFLOAT16;
    const bool by_rows_of_w = known && rows == 1 && w.strides[2] == bytes(w.kind) && across % LANES == 0;
    const int64_t strip = by_rows_of_w ? WIDE_STRIP : STRIP, pieces = (across + strip - 1) / strip;
    auto task = [&](int64_t number) {
        const int64_t b = number / pieces, n = number % pieces * strip, some = std::min(strip, across - n);
        const char* const first = w.data + b * w.strides[0] + n * w.strides[2];
        auto read = [&](int64_t from, int64_t count, float* to, int64_t apart) {
            read_rows({a.data + b * a.strides[0] + from * a.strides[1], a.kind, a.strides + 1}, count, depth, to, apart);
        };
        auto put = [&](int64_t from, int64_t count, float* sums) {
            for (int64_t m = from; m < from + count; m++, sums += STRIP) {
                float added[WIDE_STRIP];
                for (int64_t i = 0; i < some; i++) sums[i] *= factor;
                if (adds) {
                    const char* place = c.data + b * c.strides[0] + m * c.strides[1] + n * c.strides[2];
                    const float* there = loaded(place, c.kind, c.strides[2], some, added);
                    for (int64_t i = 0; i < some; i++) sums[i] += other * there[i];
                }
                stored(sums, y.data + b * y.strides[0] + m * y.strides[1] + n * y.strides[2], y.kind, y.strides[2], some);
            }
        };
#ifdef BY_TILES
        if (rows >= TOGETHER && tiled(w)) return by_tiles_of_columns(w, first, rows, some, depth, read, put);
#endif
        float sums[TOGETHER * STRIP];
        float *const own = room((TOGETHER + 1) * depth), *const spare = own + TOGETHER * depth;
        if (by_rows_of_w) {
            read(0, 1, own, depth);
            if (w.kind == FLOAT32)
                add_all_rows<float>(first, w.strides[1], own, depth, sums, some);
            else
                add_all_rows<uint16_t>(first, w.strides[1], own, depth, sums, some);
            return put(0, 1, sums);
        }
        together(rows, [&](auto count, int64_t from) {
            read(from, count, own, depth);
            columns<count()>(w, first, own, depth, sums, some, spare);
            put(from, count, sums);
        });
    };
    if (batch * rows * across * depth < LARGE)
        for (int64_t number = 0; number < batch * pieces; number++) task(number);
    else
        lanes.each(batch * pieces, task);
}

}  // namespace
