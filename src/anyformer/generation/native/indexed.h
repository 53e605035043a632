// Numbers read from, or written to, places that other tensors name.

#pragma once

#include "elementwise.h"

namespace {

// whether it writes to those places, whether it adds there, sizes, indices; the result, the tensor, and for every index the bytes
// from one place to the next, the number of places, and the index. The side with named places does not move along their size.
void indexed(Words& words, Lanes&) {
    const int64_t writes = words.next(), adds = words.next(), count = words.next(), indices = words.next();
    const int64_t* sizes = words.several(count);
    Strided x[4] = {strided(words, count), strided(words, count), {}, {}};
    int64_t by[2] = {}, places[2] = {};
    static constexpr int64_t still[MOST_SIZES] = {};
    x[2] = x[3] = {nullptr, INT64, still};
    for (int64_t k = 0; k < indices; k++) by[k] = words.next(), places[k] = words.next(), x[k + 2] = strided(words, count);
    // Where no index moves along the last size, whole rows are copied.
    bool whole = count > 0 && x[0].kind == x[1].kind && !adds;
    for (int64_t k = 0; k < indices; k++) whole = whole && x[k + 2].strides[count - 1] == 0;
    for (int k = 0; k < 2; k++) whole = whole && x[k].strides[count - 1] == bytes(x[0].kind);
    const int64_t loops = whole ? count - 1 : count, size = bytes(x[1].kind) * (whole ? sizes[count - 1] : 1);
    over<4>(loops, sizes, x, [&](const int64_t* at) {
        int64_t shift = 0;
        for (int64_t k = 0; k < indices; k++) {
            int64_t room = 0;
            const int64_t index = *loaded(x[k + 2].data + at[k + 2], x[k + 2].kind, 0, 1, &room);
            const int64_t place = index < 0 ? index + places[k] : index;
            if (place < 0 || place >= places[k]) {
                words.failed = true;
                return;
            }
            shift += by[k] * place;
        }
        char* to = x[0].data + at[0] + (writes ? shift : 0);
        const char* from = x[1].data + at[1] + (writes ? 0 : shift);
        if (x[0].kind == x[1].kind && !adds) {
            std::memcpy(to, from, size);
            return;
        }
        float value, there;
        const float* a = loaded(from, x[1].kind, 0, 1, &value);
        float sum = *a;
        if (adds) sum += *loaded(to, x[0].kind, 0, 1, &there);
        stored(&sum, to, x[0].kind, 0, 1);
    });
}

}  // namespace
