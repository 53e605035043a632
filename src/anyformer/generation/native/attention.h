// Products of activations: batches of matrices, and attention of a few queries to many keys.

#pragma once

#include "rows.h"
#include "vectors.h"

namespace {

template <typename N>
void add_columns(const Strided& w, const char* first, const float* a, int64_t depth, float* sums, int64_t count) {
    for (int64_t k = 0; k < depth; k++)
        if (a[k] != 0) add_times(reinterpret_cast<const N*>(first + k * w.strides[1]), a[k], sums, count);
}

// Sums over k of a[k] w[k, n], for `count` columns that begin at `first`.
void columns(const Strided& w, const char* first, const float* a, int64_t depth, float* sums, int64_t count, float* spare) {
    const int64_t size = bytes(w.kind), by_depth = w.strides[1], by_column = w.strides[2];
    if (by_column == size && (w.kind == FLOAT32 || w.kind == BFLOAT16)) {
        std::fill_n(sums, count, 0.0f);
        if (w.kind == FLOAT32) return add_columns<float>(w, first, a, depth, sums, count);
        return add_columns<uint16_t>(w, first, a, depth, sums, count);
    }
    for (int64_t n = 0; n < count; n++) {
        const char* column = first + n * by_column;
        if (w.kind == BFLOAT16 && by_depth == size)
            sums[n] = dot(reinterpret_cast<const uint16_t*>(column), a, depth);
        else
            sums[n] = dot(loaded(column, w.kind, by_depth, depth, spare), a, depth);
    }
}

// batch, rows, columns, depth; whether something is added, factor of the product, factor of that; the result (batch, row,
// column), a (batch, row, depth), w (batch, depth, column) and what is added (batch, row, column).
void matrix_product(Words& words, Lanes& lanes) {
    const int64_t batch = words.next(), rows = words.next(), across = words.next(), depth = words.next(), adds = words.next();
    const float factor = words.number(), other = words.number();
    const Strided y = strided(words, 3), a = strided(words, 3), w = strided(words, 3);
    const Strided c = adds ? strided(words, 3) : y;
    const int64_t pieces = (across + CHUNK - 1) / CHUNK;
    auto task = [&](int64_t number) {
        const int64_t b = number / pieces, n = number % pieces * CHUNK, some = std::min(CHUNK, across - n);
        float sums[CHUNK], added[CHUNK];
        float* const own = room(2 * depth);
        for (int64_t m = 0; m < rows; m++) {
            const float* from = loaded(a.data + b * a.strides[0] + m * a.strides[1], a.kind, a.strides[2], depth, own);
            columns(w, w.data + b * w.strides[0] + n * w.strides[2], from, depth, sums, some, own + depth);
            for (int64_t i = 0; i < some; i++) sums[i] *= factor;
            if (adds) {
                const char* place = c.data + b * c.strides[0] + m * c.strides[1] + n * c.strides[2];
                const float* there = loaded(place, c.kind, c.strides[2], some, added);
                for (int64_t i = 0; i < some; i++) sums[i] += other * there[i];
            }
            stored(sums, y.data + b * y.strides[0] + m * y.strides[1] + n * y.strides[2], y.kind, y.strides[2], some);
        }
    };
    if (batch * rows * across * depth < LARGE)
        for (int64_t number = 0; number < batch * pieces; number++) task(number);
    else
        lanes.each(batch * pieces, task);
}

struct Attention {
    int64_t heads, group, queries, keys, width, value_width, masked;
    float scale;
    // y, q: (row, head, query, feature); k, v: (row, head of keys, key, feature); mask: (row, head, query, key)
    Strided y, q, k, v, mask;

    static char* of(const Strided& x, int64_t row, int64_t head) { return x.data + row * x.strides[0] + head * x.strides[1]; }

    template <typename N>
    void operator()(int64_t task) const {
        const int64_t row = task / heads, head = task % heads;
        float* const asked = room(queries * (width + keys + value_width) + keys);
        float *const scores = asked + queries * width, *const mixed = scores + queries * keys;
        float* const hidden = mixed + queries * value_width;
        for (int64_t t = 0; t < queries; t++) {
            float* to = asked + t * width;
            const float* from = loaded(of(q, row, head) + t * q.strides[2], q.kind, q.strides[3], width, to);
            for (int64_t e = 0; e < width; e++) to[e] = from[e] * scale;
        }
        for (int64_t s = 0; s < keys; s++) {
            const N* key = reinterpret_cast<const N*>(of(k, row, head / group) + s * k.strides[2]);
            for (int64_t t = 0; t < queries; t++) scores[t * keys + s] = dot(key, asked + t * width, width);
        }
        for (int64_t t = 0; t < queries; t++) {
            float* own = scores + t * keys;
            if (masked) {
                const char* place = of(mask, row, head) + t * mask.strides[2];
                const float* given = loaded(place, mask.kind, mask.strides[3], keys, hidden);
                if (mask.kind != BOOL)
                    for (int64_t s = 0; s < keys; s++) own[s] += given[s];
                else
                    for (int64_t s = 0; s < keys; s++) own[s] = given[s] != 0 ? own[s] : -INFINITY;
            }
            if (greatest(own, keys) == -INFINITY)
                std::fill_n(own, keys, 0.0f);  // of a query that sees nothing
            else
                softmax(own, keys, false);
        }
        std::fill_n(mixed, queries * value_width, 0.0f);
        for (int64_t s = 0; s < keys; s++) {
            const N* value = reinterpret_cast<const N*>(of(v, row, head / group) + s * v.strides[2]);
            for (int64_t t = 0; t < queries; t++)
                if (scores[t * keys + s] != 0) add_times(value, scores[t * keys + s], mixed + t * value_width, value_width);
        }
        for (int64_t t = 0; t < queries; t++)
            stored(mixed + t * value_width, of(y, row, head) + t * y.strides[2], y.kind, y.strides[3], value_width);
    }
};

// rows, heads, query heads of each head of keys, queries, keys, width, width of values, whether masked, scale; then the tensors
// in the order above.
void attention(Words& words, Lanes& lanes) {
    Attention a;
    const int64_t rows = words.next();
    a.heads = words.next(), a.group = words.next(), a.queries = words.next(), a.keys = words.next(), a.width = words.next();
    a.value_width = words.next(), a.masked = words.next(), a.scale = words.number();
    a.y = strided(words, 4), a.q = strided(words, 4), a.k = strided(words, 4), a.v = strided(words, 4);
    if (a.masked) a.mask = strided(words, 4);
    lanes.each(rows * a.heads, [&](int64_t task) {
        if (a.k.kind == BFLOAT16)
            a.operator()<uint16_t>(task);
        else
            a.operator()<float>(task);
    });
}

}  // namespace
