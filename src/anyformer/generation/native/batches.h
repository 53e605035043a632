// Products of activations: batches of matrices.

#pragma once

#include "rows.h"
#include "vectors.h"

namespace {

constexpr int64_t STRIP = 64;  // columns of a task
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
        for (int j = 0; j < WIDTH; j++) {
            const Floats w = vector_at(row + j * LANES);
            for (int r = 0; r < COUNT; r++) found[r][j] += w * a[r * depth + k];
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++)
        for (int j = 0; j < WIDTH; j++) floats_at(sums + r * STRIP + j * LANES) = found[r][j];
}

template <typename N, int COUNT>
void add_columns(const char* first, int64_t by_depth, const float* a, int64_t depth, float* sums, int64_t count) {
    int64_t n = 0;
    for (; n + 4 * LANES <= count; n += 4 * LANES) add_columns<N, COUNT, 4>(first + n * sizeof(N), by_depth, a, depth, sums + n);
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

// The same of matrices whose columns lie in other ways.
template <int COUNT>
void apart_columns(const Strided& w, const char* first, const float* a, int64_t depth, float* sums, int64_t count, float* spare) {
    for (int64_t n = 0; n < count; n++) {
        const char* column = first + n * w.strides[2];
        if (w.kind == BFLOAT16 && w.strides[1] == 2) {
            for (int r = 0; r < COUNT; r++) sums[r * STRIP + n] = dot(reinterpret_cast<const uint16_t*>(column), a + r * depth, depth);
            continue;
        }
        const float* numbers = loaded(column, w.kind, w.strides[1], depth, spare);
        for (int r = 0; r < COUNT; r++) sums[r * STRIP + n] = dot(numbers, a + r * depth, depth);
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

// batch, rows, columns, depth; whether something is added, factor of the product, factor of that; the result (batch, row,
// column), a (batch, row, depth), w (batch, depth, column) and what is added (batch, row, column).
void matrix_product(Words& words, Lanes& lanes) {
    const int64_t batch = words.next(), rows = words.next(), across = words.next(), depth = words.next(), adds = words.next();
    const float factor = words.number(), other = words.number();
    const Strided y = strided(words, 3), a = strided(words, 3), w = strided(words, 3);
    const Strided c = adds ? strided(words, 3) : y;
    const int64_t pieces = (across + STRIP - 1) / STRIP;
    auto task = [&](int64_t number) {
        const int64_t b = number / pieces, n = number % pieces * STRIP, some = std::min(STRIP, across - n);
        const char* const first = w.data + b * w.strides[0] + n * w.strides[2];
        float sums[TOGETHER * STRIP], added[STRIP];
        float *const own = room((TOGETHER + 1) * depth), *const spare = own + TOGETHER * depth;
        together(rows, [&](auto count, int64_t from) {
            read_rows({a.data + b * a.strides[0] + from * a.strides[1], a.kind, a.strides + 1}, count, depth, own, depth);
            columns<count()>(w, first, own, depth, sums, some, spare);
            for (int64_t r = 0; r < count; r++) {
                const int64_t m = from + r;
                float* const found = sums + r * STRIP;
                for (int64_t i = 0; i < some; i++) found[i] *= factor;
                if (adds) {
                    const char* place = c.data + b * c.strides[0] + m * c.strides[1] + n * c.strides[2];
                    const float* there = loaded(place, c.kind, c.strides[2], some, added);
                    for (int64_t i = 0; i < some; i++) found[i] += other * there[i];
                }
                stored(found, y.data + b * y.strides[0] + m * y.strides[1] + n * y.strides[2], y.kind, y.strides[2], some);
            }
        });
    };
    if (batch * rows * across * depth < LARGE)
        for (int64_t number = 0; number < batch * pieces; number++) task(number);
    else
        lanes.each(batch * pieces, task);
}

}  // namespace
