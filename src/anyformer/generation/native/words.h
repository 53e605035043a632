// The table of a step: whole numbers that say what to compute, with tensors as places in memory.

#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#else
#include "aligned_memory.h"
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

enum Kind : int64_t { FLOAT32, BFLOAT16, INT64, BOOL, INT32, INT8, UINT8 };
inline int64_t bytes(int64_t kind) {
    constexpr int64_t each[] = {4, 2, 8, 1, 4, 1, 1};
    return each[kind];
}

constexpr int64_t CHUNK = 256;  // numbers that are converted at a time
constexpr int MOST_SIZES = 6;

// The words that are still to be read, and where the tensors of this step begin.
struct Words {
    const int64_t* next_word;
    char* const* bases;
    bool failed = false;  // an index named no place
    int64_t next() { return *next_word++; }
    float number() {
        const int64_t word = next();
        const int32_t low = int32_t(word);
        float value;
        std::memcpy(&value, &low, sizeof value);
        return value;
    }
    char* place() {
        char* base = bases[next()];
        return base + next();
    }
    const int64_t* several(int64_t count) {
        const int64_t* first = next_word;
        next_word += count;
        return first;
    }
};

// A tensor: its first number, what numbers it has, and the bytes from one to the next along every size of the loop around it.
struct Strided {
    char* data;
    int64_t kind;
    const int64_t* strides;
};

inline Strided strided(Words& words, int64_t sizes) {
    Strided x;
    x.data = words.place();
    x.kind = words.next();
    x.strides = words.several(sizes);
    return x;
}

inline float from_bfloat16(uint16_t bits) {
    const uint32_t wide = uint32_t(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

// To the nearest, and of two to the even one.
inline uint16_t to_bfloat16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fc0;
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// A number in bf16, as it lies in memory.
struct BFloat16 {
    uint16_t bits;
    BFloat16() = default;
    template <typename T>
    explicit BFloat16(T value) : bits(to_bfloat16(float(value))) {}
    template <typename T>
    explicit operator T() const { return T(from_bfloat16(bits)); }
};

template <typename N, typename T>
inline void gather_numbers(const char* from, int64_t stride, int64_t count, T* to) {
    auto each = [=](int64_t by) {
        for (int64_t i = 0; i < count; i++) {
            N value;
            std::memcpy(&value, from + i * by, sizeof value);
            to[i] = T(value);
        }
    };
    stride == int64_t(sizeof(N)) ? each(sizeof(N)) : each(stride);  // a compiler makes vectors of numbers side by side
}

// `count` numbers as T: where they lie, or copied to `room`.
template <typename T>
const T* loaded(const char* from, int64_t kind, int64_t stride, int64_t count, T* room) {
    constexpr int64_t own = std::is_same<T, float>::value ? FLOAT32 : INT64;
    if (kind == own && stride == int64_t(sizeof(T))) return reinterpret_cast<const T*>(from);
    const int64_t distinct = stride == 0 ? 1 : count;
    switch (kind) {
        case FLOAT32: gather_numbers<float>(from, stride, distinct, room); break;
        case INT64: gather_numbers<int64_t>(from, stride, distinct, room); break;
        case INT32: gather_numbers<int32_t>(from, stride, distinct, room); break;
        case INT8: gather_numbers<int8_t>(from, stride, distinct, room); break;
        case UINT8: case BOOL: gather_numbers<uint8_t>(from, stride, distinct, room); break;
        case BFLOAT16: gather_numbers<BFloat16>(from, stride, distinct, room); break;
    }
    for (int64_t i = distinct; i < count; i++) room[i] = room[0];
    return room;
}

template <typename N, typename T>
inline void scatter_numbers(const T* from, char* to, int64_t stride, int64_t count) {
    auto each = [=](int64_t by) {
        for (int64_t i = 0; i < count; i++) {
            const N value = N(from[i]);
            std::memcpy(to + i * by, &value, sizeof value);
        }
    };
    stride == int64_t(sizeof(N)) ? each(sizeof(N)) : each(stride);
}

template <typename T>
void stored(const T* from, char* to, int64_t kind, int64_t stride, int64_t count) {
    switch (kind) {
        case FLOAT32: return scatter_numbers<float>(from, to, stride, count);
        case INT64: return scatter_numbers<int64_t>(from, to, stride, count);
        case INT32: return scatter_numbers<int32_t>(from, to, stride, count);
        case INT8: return scatter_numbers<int8_t>(from, to, stride, count);
        case UINT8: return scatter_numbers<uint8_t>(from, to, stride, count);
        case BOOL:
            for (int64_t i = 0; i < count; i++) to[i * stride] = from[i] != T(0);
            return;
        case BFLOAT16: return scatter_numbers<BFloat16>(from, to, stride, count);
    }
}

// Where T is the type of numbers that lie side by side, these are they; else nullptr.
template <typename T>
inline T* as_they_lie(char* to, int64_t kind, int64_t stride) {
    constexpr int64_t own = std::is_same<T, float>::value ? FLOAT32 : INT64;
    return kind == own && stride == int64_t(sizeof(T)) ? reinterpret_cast<T*>(to) : nullptr;
}

// Calls `body` with the number of every place of a loop over `sizes`, and the bytes of K tensors there.
template <int K, typename Body>
void over(int64_t count, const int64_t* sizes, const Strided* tensors, Body body) {
    int64_t index[MOST_SIZES] = {}, at[K] = {};
    while (true) {
        body(at);
        int64_t d = count - 1;
        for (; d >= 0; d--) {
            index[d]++;
            for (int k = 0; k < K; k++) at[k] += tensors[k].strides[d];
            if (index[d] < sizes[d]) break;
            for (int k = 0; k < K; k++) at[k] -= sizes[d] * tensors[k].strides[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

}  // namespace
