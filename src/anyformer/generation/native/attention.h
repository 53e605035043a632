// Attention of a few queries to many keys.

#pragma once

#include "rows.h"
#include "vectors.h"

namespace {

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
