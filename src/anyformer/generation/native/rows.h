// What reads whole rows: sums, greatest numbers, softmax, norms, running sums.

#pragma once

#include "elementwise.h"

namespace {

constexpr int SUMS = 16;  // partial sums, which a compiler keeps in one vector

inline float total(const float* x, int64_t n) {
    float sums[SUMS] = {};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++) sums[j] += x[i + j];
    for (; i < n; i++) sums[0] += x[i];
    for (int width = SUMS / 2; width; width /= 2)
        for (int j = 0; j < width; j++) sums[j] += sums[j + width];
    return sums[0];
}
inline int64_t total(const int64_t* x, int64_t n) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}
inline float squares(const float* x, int64_t n, float mean) {
    float sums[SUMS] = {};
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++) sums[j] += (x[i + j] - mean) * (x[i + j] - mean);
    for (; i < n; i++) sums[0] += (x[i] - mean) * (x[i] - mean);
    for (int width = SUMS / 2; width; width /= 2)
        for (int j = 0; j < width; j++) sums[j] += sums[j + width];
    return sums[0];
}
// The greater one; NaN where one of both is.
inline float greater(float x, float most) { return x > most || x != x ? x : most; }
inline float greatest(const float* x, int64_t n) {
    float most[SUMS];
    std::fill_n(most, SUMS, -INFINITY);
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++) most[j] = greater(x[i + j], most[j]);
    for (; i < n; i++) most[0] = greater(x[i], most[0]);
    for (int width = SUMS / 2; width; width /= 2)
        for (int j = 0; j < width; j++) most[j] = greater(most[j + width], most[j]);
    return most[0];
}

enum Reduction : int64_t { SUM, MEAN, GREATEST, SMALLEST, PLACE_OF_GREATEST, PLACE_OF_SMALLEST, ANY, ALL, LENGTH };

template <typename T>
struct Reduced {
    int64_t how, seen = 0;
    T value = 0;
    int64_t place = 0;

    void take(const T* x, int64_t n) {
        switch (how) {
            case SUM: case MEAN: value += total(x, n); break;
            case LENGTH:
                if constexpr (std::is_same<T, float>::value) value += squares(x, n, 0);
                break;
            case ANY: for (int64_t i = 0; i < n; i++) value = value != T(0) || x[i] != T(0); break;
            case ALL:
                if (!seen) value = 1;
                for (int64_t i = 0; i < n; i++) value = value != T(0) && x[i] != T(0);
                break;
            default:
                for (int64_t i = 0; i < n; i++) {
                    const bool more = how == GREATEST || how == PLACE_OF_GREATEST ? x[i] > value : x[i] < value;
                    if ((seen == 0 && i == 0) || more || x[i] != x[i]) value = x[i], place = seen + i;
                }
        }
        seen += n;
    }
    T result() const {
        if (how == MEAN) return value / T(seen);
        if (how == LENGTH) return T(std::sqrt(float(value)));
        return how == PLACE_OF_GREATEST || how == PLACE_OF_SMALLEST ? T(place) : value;
    }
};

// Sums over a size whose numbers lie apart, such as what several experts give: rows of numbers that lie side by side are added.
inline bool summed(int64_t how, int64_t kept, const int64_t* sizes, int64_t gone, const int64_t* inner, const Strided* x) {
    const int64_t last = kept - 1, size = bytes(FLOAT32);
    const bool suits = (how == SUM || how == MEAN) && gone == 1 && kept > 0 && x[1].kind == FLOAT32 && x[0].kind == FLOAT32 &&
                       x[1].strides[last] == size && x[0].strides[last] == size && x[1].strides[kept] != size;
    if (!suits) return false;
    over<2>(last, sizes, x, [&](const int64_t* at) {
        float* const to = reinterpret_cast<float*>(x[0].data + at[0]);
        for (int64_t k = 0; k < inner[0]; k++) {
            const float* const from = reinterpret_cast<const float*>(x[1].data + at[1] + k * x[1].strides[kept]);
            for (int64_t i = 0; i < sizes[last]; i++) to[i] = k ? to[i] + from[i] : from[i];
        }
        for (int64_t i = 0; how == MEAN && i < sizes[last]; i++) to[i] /= float(inner[0]);
    });
    return true;
}

template <typename T>
void reduced(int64_t how, int64_t kept, const int64_t* sizes, int64_t gone, const int64_t* inner, const Strided* x) {
    over<2>(kept, sizes, x, [&](const int64_t* at) {
        Reduced<T> found{how};
        const Strided row{x[1].data + at[1], x[1].kind, x[1].strides + kept};
        const int64_t n = inner[gone - 1], stride = row.strides[gone - 1];
        over<1>(gone - 1, inner, &row, [&](const int64_t* from) {
            for (int64_t i = 0; i < n; i += CHUNK) {
                T room[CHUNK];
                const int64_t some = std::min(CHUNK, n - i);
                found.take(loaded(row.data + from[0] + i * stride, row.kind, stride, some, room), some);
            }
        });
        const T value = found.result();
        stored(&value, x[0].data + at[0], x[0].kind, 0, 1);
    });
}

// how, whether of whole numbers, sizes that stay, sizes that go; the result (which moves along the former alone), the tensor.
void reduction(Words& words, Lanes& lanes) {
    const int64_t how = words.next(), whole = words.next(), kept = words.next(), gone = words.next();
    const int64_t* sizes = words.several(kept + gone);
    const Strided x[2] = {strided(words, kept + gone), strided(words, kept + gone)};
    auto all = [&](const Strided* from, const int64_t* of) {
        if (whole)
            reduced<int64_t>(how, kept, of, gone, sizes + kept, from);
        else if (!summed(how, kept, of, gone, sizes + kept, from))
            reduced<float>(how, kept, of, gone, sizes + kept, from);
    };
    int64_t numbers = 1;
    for (int64_t d = 0; d < kept + gone; d++) numbers *= sizes[d];
    if (numbers < LARGE || kept == 0) return all(x, sizes);
    lanes.each(sizes[0], [&](int64_t i) {
        int64_t of[MOST_SIZES];
        for (int64_t d = 0; d < kept; d++) of[d] = d ? sizes[d] : 1;
        const Strided part[2] = {{x[0].data + i * x[0].strides[0], x[0].kind, x[0].strides},
                                 {x[1].data + i * x[1].strides[0], x[1].kind, x[1].strides}};
        all(part, of);
    });
}

enum RowFunction : int64_t { SOFTMAX, LOGARITHM_OF_SOFTMAX, RMS_NORM, LAYER_NORM, RUNNING_SUM };

inline void softmax(float* x, int64_t n, bool logarithm) {
    const float most = greatest(x, n);
    float sum = 0;
    if (logarithm) {
        for (int64_t i = 0; i < n; i++) sum += exponential(x[i] - most);
        const float shift = most + std::log(sum);
        for (int64_t i = 0; i < n; i++) x[i] -= shift;
        return;
    }
    for (int64_t i = 0; i < n; i++) x[i] = exponential(x[i] - most);
    sum = 1 / total(x, n);
    for (int64_t i = 0; i < n; i++) x[i] *= sum;
}

// Memory of a thread that stays from call to call; `PLACE`: one of several that are in use at once.
template <int PLACE = 0>
inline float* room(int64_t numbers) {
    static thread_local struct Room {
        float* data = nullptr;
        int64_t size = 0;
        ~Room() { _mm_free(data); }
    } kept;
    if (kept.size < numbers) {
        _mm_free(kept.data);
        kept.data = static_cast<float*>(_mm_malloc(numbers * sizeof(float), 64));
        kept.size = numbers;
    }
    return kept.data;
}

// Rows of numbers as fp32, which then lie side by side, and `apart` numbers from one row to the next.
void read_rows(const Strided& x, int64_t rows, int64_t count, float* to, int64_t apart) {
    for (int64_t row = 0; row < rows; row++, to += apart) {
        const float* from = loaded(x.data + row * x.strides[0], x.kind, x.strides[1], count, to);
        if (from != to) std::memcpy(to, from, count * sizeof(float));
    }
}

// function, epsilon, whether with a weight, with an offset, sizes (the last is that of a row); the result, the tensor, weight,
// offset (which move along the last size alone).
void rows(Words& words, Lanes&) {
    const int64_t function = words.next();
    const float epsilon = words.number();
    const int64_t weighted = words.next(), shifted = words.next(), count = words.next();
    const int64_t* sizes = words.several(count);
    static constexpr int64_t still[MOST_SIZES] = {};
    Strided x[4] = {strided(words, count), strided(words, count), {nullptr, FLOAT32, still}, {nullptr, FLOAT32, still}};
    if (weighted) x[2] = strided(words, count);
    if (shifted) x[3] = strided(words, count);
    const int64_t n = sizes[count - 1], last = count - 1;
    float* const row = room(3 * n);
    const float* const weight = weighted ? loaded(x[2].data, x[2].kind, x[2].strides[last], n, row + n) : nullptr;
    const float* const offset = shifted ? loaded(x[3].data, x[3].kind, x[3].strides[last], n, row + 2 * n) : nullptr;
    over<2>(last, sizes, x, [&](const int64_t* at) {
        const float* from = loaded(x[1].data + at[1], x[1].kind, x[1].strides[last], n, row);
        if (from != row) std::memcpy(row, from, n * sizeof(float));
        if (function == SOFTMAX || function == LOGARITHM_OF_SOFTMAX) softmax(row, n, function == LOGARITHM_OF_SOFTMAX);
        if (function == RUNNING_SUM)
            for (int64_t i = 1; i < n; i++) row[i] += row[i - 1];
        if (function == RMS_NORM || function == LAYER_NORM) {
            const float mean = function == LAYER_NORM ? total(row, n) / float(n) : 0.0f;
            const float scale = 1.0f / std::sqrt(squares(row, n, mean) / float(n) + epsilon);
            for (int64_t i = 0; i < n; i++) row[i] = (row[i] - mean) * scale;
            if (weight) for (int64_t i = 0; i < n; i++) row[i] *= weight[i];
            if (offset) for (int64_t i = 0; i < n; i++) row[i] += offset[i];
        }
        stored(row, x[0].data + at[0], x[0].kind, x[0].strides[last], n);
    });
}

}  // namespace
