// Functions of the numbers at the same place of up to three tensors.

#pragma once

#include <algorithm>

#include "lanes.h"
#include "words.h"

namespace {

// e^x: 2^n e^r with |r| <= ln(2) / 2, and for e^r its Taylor polynomial of the sixth degree; 0 below the least normal number.
inline float exponential(float x) {
    const float bounded = x > 88.7f ? 88.7f : x < -87.3f ? -87.3f : x;
    const float whole = (bounded * 1.44269504088896341f + 12582912.0f) - 12582912.0f;  // the nearest whole number
    const float r = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t bits = (int32_t(whole) + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof power);
    const float value = p * power;
    return x < -87.3f ? 0.0f : x > 88.7f ? INFINITY : value;
}
inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
inline float hyperbolic(float x) {
    const float square = x * x, small = x * (1.0f + square * (-1.0f / 3 + square * (2.0f / 15)));
    const float large = 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
    return square < 0.0025f ? small : large;
}

enum Function : int64_t {
    COPY, NEGATIVE, EXPONENTIAL, LOGARITHM, ROOT, INVERSE_ROOT, INVERSE, SIGMOID, SILU, GELU, GELU_TANH, TANH, RELU, SOFTPLUS,
    ABSOLUTE, SINE, COSINE, NOT, LOGARITHM_OF_MORE, FLOOR, SIGN, ERROR_FUNCTION,
    EXPONENTIAL_LESS_ONE, LOGARITHM_OF_SIGMOID, ARCCOSINE, CEILING,
    ADD = 32, SUBTRACT, MULTIPLY, DIVIDE, POWER, LEAST, MOST, EQUAL, UNEQUAL, LESS, LESS_EQUAL, MORE, MORE_EQUAL, AND, OR, XOR,
    REMAINDER, FLOOR_DIVIDE, LEFT, RIGHT,
    WHERE = 64, ADD_PRODUCT,
};

template <typename T>
inline T floored(T a, T b) {
    if constexpr (std::is_same<T, float>::value) return std::floor(a / b);
    const T q = a / b;
    return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

template <typename T>
inline T bits_of(T a, T b, int64_t function) {
    const int64_t x = int64_t(a), y = int64_t(b);
    if (function == LEFT || function == RIGHT) return T(function == LEFT ? x << y : x >> y);
    return T(function == AND ? x & y : function == OR ? x | y : x ^ y);
}

// One function of `n` numbers.
template <typename T, typename F>
inline void each(int64_t n, const T* a, T* to, F f) {
    for (int64_t i = 0; i < n; i++) to[i] = f(a[i]);
}
template <typename T, typename F>
inline void each(int64_t n, const T* a, const T* b, T* to, F f) {
    for (int64_t i = 0; i < n; i++) to[i] = f(a[i], b[i]);
}

template <typename T>
void computed(int64_t function, int64_t n, const T* a, const T* b, const T* c, T* to) {
    using std::abs;
    switch (function) {
        case COPY: return each(n, a, to, [](T x) { return x; });
        case NEGATIVE: return each(n, a, to, [](T x) { return T(-x); });
        case EXPONENTIAL: return each(n, a, to, [](T x) { return T(exponential(float(x))); });
        case LOGARITHM: return each(n, a, to, [](T x) { return T(std::log(float(x))); });
        case LOGARITHM_OF_MORE: return each(n, a, to, [](T x) { return T(std::log1p(float(x))); });
        case ROOT: return each(n, a, to, [](T x) { return T(std::sqrt(float(x))); });
        case INVERSE_ROOT: return each(n, a, to, [](T x) { return T(1.0f / std::sqrt(float(x))); });
        case INVERSE: return each(n, a, to, [](T x) { return T(1.0f / float(x)); });
        case SIGMOID: return each(n, a, to, [](T x) { return T(sigmoid(float(x))); });
        case SILU: return each(n, a, to, [](T x) { return T(float(x) * sigmoid(float(x))); });
        case GELU: return each(n, a, to, [](T x) { return T(0.5f * float(x) * (1.0f + std::erf(float(x) * 0.70710678f))); });
        case GELU_TANH:
            return each(n, a, to, [](T x) {
                const float y = float(x);
                return T(0.5f * y * (1.0f + hyperbolic(0.79788456f * (y + 0.044715f * y * y * y))));
            });
        case TANH: return each(n, a, to, [](T x) { return T(hyperbolic(float(x))); });
        case RELU: return each(n, a, to, [](T x) { return x < T(0) ? T(0) : x; });
        case SOFTPLUS:
            return each(n, a, to, [](T x) { return T(float(x) > 20.0f ? float(x) : std::log1p(exponential(float(x)))); });
        case ABSOLUTE: return each(n, a, to, [](T x) { return T(abs(x)); });
        case SINE: return each(n, a, to, [](T x) { return T(std::sin(float(x))); });
        case COSINE: return each(n, a, to, [](T x) { return T(std::cos(float(x))); });
        case NOT: return each(n, a, to, [](T x) { return T(x == T(0)); });
        case FLOOR: return each(n, a, to, [](T x) { return T(std::floor(float(x))); });
        case SIGN: return each(n, a, to, [](T x) { return T((x > T(0)) - (x < T(0))); });
        case ERROR_FUNCTION: return each(n, a, to, [](T x) { return T(std::erf(float(x))); });
        case EXPONENTIAL_LESS_ONE: return each(n, a, to, [](T x) { return T(std::expm1(float(x))); });
        case LOGARITHM_OF_SIGMOID:
            return each(n, a, to, [](T x) {
                const float y = float(x);
                return T((y < 0 ? y : 0.0f) - std::log1p(exponential(-std::abs(y))));
            });
        case ARCCOSINE: return each(n, a, to, [](T x) { return T(std::acos(float(x))); });
        case CEILING: return each(n, a, to, [](T x) { return T(std::ceil(float(x))); });
        case ADD: return each(n, a, b, to, [](T x, T y) { return T(x + y); });
        case SUBTRACT: return each(n, a, b, to, [](T x, T y) { return T(x - y); });
        case MULTIPLY: return each(n, a, b, to, [](T x, T y) { return T(x * y); });
        case DIVIDE: return each(n, a, b, to, [](T x, T y) { return T(float(x) / float(y)); });
        case POWER: return each(n, a, b, to, [](T x, T y) { return T(y == T(2) ? x * x : T(std::pow(float(x), float(y)))); });
        case LEAST: return each(n, a, b, to, [](T x, T y) { return x != x || x < y ? x : y; });
        case MOST: return each(n, a, b, to, [](T x, T y) { return x != x || x > y ? x : y; });
        case EQUAL: return each(n, a, b, to, [](T x, T y) { return T(x == y); });
        case UNEQUAL: return each(n, a, b, to, [](T x, T y) { return T(x != y); });
        case LESS: return each(n, a, b, to, [](T x, T y) { return T(x < y); });
        case LESS_EQUAL: return each(n, a, b, to, [](T x, T y) { return T(x <= y); });
        case MORE: return each(n, a, b, to, [](T x, T y) { return T(x > y); });
        case MORE_EQUAL: return each(n, a, b, to, [](T x, T y) { return T(x >= y); });
        case AND: case OR: case XOR: case LEFT: case RIGHT: return each(n, a, b, to, [=](T x, T y) { return bits_of(x, y, function); });
        case FLOOR_DIVIDE: return each(n, a, b, to, [](T x, T y) { return floored(x, y); });
        case REMAINDER: return each(n, a, b, to, [](T x, T y) { return T(x - floored(x, y) * y); });
        case WHERE:
            for (int64_t i = 0; i < n; i++) to[i] = a[i] != T(0) ? b[i] : c[i];
            return;
        case ADD_PRODUCT:
            for (int64_t i = 0; i < n; i++) to[i] = a[i] + b[i] * c[i];
    }
}

constexpr int64_t LARGE = 1 << 15;  // numbers from which threads share a loop: to pass on fewer costs more than to compute them
constexpr int64_t PIECE = 1 << 12;  // numbers of a thread's task

// The loops over all sizes but the last, from `begin` to `end` of the first one's; of every other only whole ones.
template <typename T>
void elements(int64_t function, int64_t count, const int64_t* sizes, int64_t given, const Strided* x) {
    const int64_t n = sizes[count - 1];
    over<4>(count - 1, sizes, x, [&](const int64_t* at) {
        for (int64_t i = 0; i < n; i += CHUNK) {
            T rooms[4][CHUNK];
            const int64_t some = std::min(CHUNK, n - i), last = count - 1;
            const T* read[3] = {};
            for (int64_t k = 0; k < given; k++) {
                const int64_t stride = x[k + 1].strides[last];
                read[k] = loaded(x[k + 1].data + at[k + 1] + i * stride, x[k + 1].kind, stride, some, rooms[k]);
            }
            char* place = x[0].data + at[0] + i * x[0].strides[last];
            T* direct = as_they_lie<T>(place, x[0].kind, x[0].strides[last]);
            computed(function, some, read[0], read[1], read[2], direct ? direct : rooms[3]);
            if (!direct) stored(rooms[3], place, x[0].kind, x[0].strides[last], some);
        }
    });
}

// function, whether of whole numbers, sizes, given tensors; the result, and these.
void elementwise(Words& words, Lanes& lanes) {
    const int64_t function = words.next(), whole = words.next(), count = words.next(), given = words.next();
    const int64_t* sizes = words.several(count);
    static constexpr int64_t still[MOST_SIZES] = {};
    Strided x[4];
    for (int64_t k = 0; k < 4; k++) x[k] = k <= given ? strided(words, count) : Strided{nullptr, FLOAT32, still};
    int64_t numbers = 1;
    for (int64_t d = 0; d < count; d++) numbers *= sizes[d];
    if (numbers == 0) return;
    auto all = [&](const Strided* from, const int64_t* of) {
        if (whole)
            elements<int64_t>(function, count, of, given, from);
        else
            elements<float>(function, count, of, given, from);
    };
    if (numbers < LARGE) return all(x, sizes);
    const int64_t per = std::max<int64_t>(1, PIECE / (numbers / sizes[0]));  // of the first size, in a task
    lanes.each((sizes[0] + per - 1) / per, [&](int64_t task) {
        const int64_t i = task * per;
        Strided part[4];
        int64_t of[MOST_SIZES];
        for (int64_t d = 0; d < count; d++) of[d] = d ? sizes[d] : std::min(per, sizes[0] - i);
        for (int64_t k = 0; k < 4; k++) part[k] = {x[k].data + i * x[k].strides[0], x[k].kind, x[k].strides};
        all(part, of);
    });
}

}  // namespace
