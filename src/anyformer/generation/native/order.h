// The greatest or least numbers of rows, and their places.

#pragma once

#include <numeric>

#include "rows.h"

namespace {

// whether the greatest come first, how many, whether their values are wanted, sizes (the last is that of a row); places and
// values (which have so many along it), the tensor. Of equal numbers those at the lower places come first.
void order(Words& words, Lanes&) {
    const int64_t greatest_first = words.next(), wanted = words.next(), with_values = words.next(), count = words.next();
    const int64_t* sizes = words.several(count);
    Strided x[3];
    x[0] = strided(words, count), x[1] = strided(words, count);
    x[2] = with_values ? strided(words, count) : x[0];
    const int64_t last = count - 1, n = sizes[last];
    float* const copies = room(2 * n + wanted);
    int32_t* const places = reinterpret_cast<int32_t*>(copies + n);
    float* const values = copies + 2 * n;
    over<3>(last, sizes, x, [&](const int64_t* at) {
        const float* row = loaded(x[1].data + at[1], x[1].kind, x[1].strides[last], n, copies);
        std::iota(places, places + n, 0);
        std::partial_sort(places, places + wanted, places + n, [=](int32_t a, int32_t b) {
            if (row[a] != row[b]) return greatest_first ? row[a] > row[b] : row[a] < row[b];
            return a < b;
        });
        for (int64_t i = 0; i < wanted; i++) {
            const int64_t place = places[i];
            values[i] = row[place];
            stored(&place, x[0].data + at[0] + i * x[0].strides[last], x[0].kind, 0, 1);
        }
        if (with_values) stored(values, x[2].data + at[2], x[2].kind, x[2].strides[last], wanted);
    });
}

}  // namespace
