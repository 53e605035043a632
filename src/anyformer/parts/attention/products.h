// Products of small matrices that lie in the processor's cache: of numbers in fp32, and of those in bf16 by pairs, where it has
// an instruction that multiplies two pairs and adds both products up in fp32 (AVX512_BF16).

#pragma once

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

#ifdef __AVX512F__
constexpr int LANES = 16, ROWS = 8, COLUMNS = 2;  // a tile of ROWS x (COLUMNS * LANES) sums stays in registers
#elif defined(__x86_64__)
constexpr int LANES = 8, ROWS = 4, COLUMNS = 2;
#else
constexpr int LANES = 4, ROWS = 4, COLUMNS = 4;
#endif
constexpr int64_t PANEL = COLUMNS * LANES;

typedef float Floats __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
using Pair = uint32_t;  // two numbers in bf16, the first in the lower bits
typedef uint32_t Pairs __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

template <typename Unit>
struct Vector;
template <>
struct Vector<float> {
    using Type = Floats;
};
template <>
struct Vector<Pair> {
    using Type = Pairs;
};

inline Floats& at(float* p) { return *reinterpret_cast<Floats*>(p); }
inline const Floats& at(const float* p) { return *reinterpret_cast<const Floats*>(p); }
inline Pairs& at(Pair* p) { return *reinterpret_cast<Pairs*>(p); }
inline const Pairs& at(const Pair* p) { return *reinterpret_cast<const Pairs*>(p); }
inline Floats all(float x) { return x - Floats{}; }
inline Pairs all(uint32_t x) { return x + Pairs{}; }

inline float sum(Floats x) {
    float total = 0;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

inline float greatest(Floats x) {
    float most = x[0];
    for (int i = 1; i < LANES; i++) most = x[i] > most ? x[i] : most;
    return most;
}

// e^x of x <= 0: 2^n e^r with |r| <= ln(2) / 2, and for e^r its Taylor polynomial of the sixth degree.
inline Floats exponential(Floats x) {
    x = x < -87.0f ? all(-87.0f) : x;
    const Floats scaled = x * 1.44269504088896341f - 0.5f;
    const Integers n = __builtin_convertvector(scaled, Integers);  // towards zero: the nearest, of numbers <= 0
    const Floats whole = __builtin_convertvector(n, Floats);
    const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    Floats p = all(1.0f / 720);
    for (const float next : {1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) p = p * r + next;
    const Integers bits = (n + 127) << 23;
    Floats power;
    std::memcpy(&power, &bits, sizeof power);
    return p * power;
}

struct __attribute__((may_alias)) BFloat16 {
    uint16_t bits;
};
inline float number(float x) { return x; }
inline float number(BFloat16 x) {
    const uint32_t bits = uint32_t(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline void store(float& to, float x) { to = x; }
inline void store(float& to, BFloat16 x) { to = number(x); }
inline void store(BFloat16& to, float x) {  // to the nearest, ties to even
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    to.bits = x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// What products take numbers of a type by: units of 4 bytes, each `DEPTH` numbers that follow along what is added up.
template <typename N>
struct Units {
    using Unit = float;
    using Number = float;
    static constexpr int64_t DEPTH = 1;
};
inline void add_product(Floats& sum, const Floats& a, const Floats& b) { sum += a * b; }

#ifdef __AVX512BF16__
template <>
struct Units<BFloat16> {
    using Unit = Pair;
    using Number = BFloat16;
    static constexpr int64_t DEPTH = 2;
};
inline void add_product(Floats& sum, const Pairs& a, const Pairs& b) {
    sum = (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
// Two times LANES numbers as pairs of neighbours.
inline Pairs neighbours(Floats first, Floats next) { return (Pairs)_mm512_cvtne2ps_pbh((__m512)next, (__m512)first); }
// LANES numbers of two lines as pairs, one of each.
inline Pairs beside(Floats upper, Floats lower) {
    const auto narrow = [](Floats x) { return __builtin_convertvector((Halves)_mm512_cvtneps_pbh((__m512)x), Pairs); };
    return narrow(upper) | narrow(lower) << 16;
}
#else
inline Pairs neighbours(Floats, Floats) { return Pairs{}; }  // never called: DEPTH is 1
inline Pairs beside(Floats, Floats) { return Pairs{}; }
#endif

// C (+)= factor * A B of K units, with A(m, k) = a[m * by_m + k * by_k], and rows of B and C of `wide` and `width` numbers. The
// columns of B lie in panels of PANEL, `apart` units from one to the next: PANEL where rows are whole.
template <typename Unit>
inline void tile(int64_t K, const Unit* a, int64_t by_m, int64_t by_k, const Unit* b, int64_t wide, float* c, int64_t width,
                 float factor, bool adds) {
    Floats sums[ROWS][COLUMNS] = {};
    for (int64_t k = 0; k < K; k++) {
        typename Vector<Unit>::Type row[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) row[j] = at(b + k * wide + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            const auto x = all(a[i * by_m + k * by_k]);
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS; j++) add_product(sums[i][j], x, row[j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) {
            Floats& to = at(c + i * width + j * LANES);
            to = adds ? to + factor * sums[i][j] : factor * sums[i][j];
        }
}

template <typename Unit>
void product(int64_t M, int64_t N, int64_t K, const Unit* a, int64_t by_m, int64_t by_k, const Unit* b, int64_t wide,
             int64_t apart, float* c, int64_t width, float factor, bool adds) {
    for (int64_t n = 0; n < N; n += PANEL)
        for (int64_t m = 0; m < M; m += ROWS)
            tile(K, a + m * by_m, by_m, by_k, b + n / PANEL * apart, wide, c + m * width + n, width, factor, adds);
}

// (rows, width) units -> (width, rows), in panels of PANEL columns.
template <typename Unit>
void transposed(const Unit* x, int64_t rows, int64_t width, Unit* to) {
    for (int64_t t = 0; t < rows; t += PANEL, to += PANEL * width)
        for (int64_t e = 0; e < width; e++)
            for (int64_t i = 0; i < PANEL; i++) to[e * PANEL + i] = x[(t + i) * width + e];
}

// A matrix (rows, width) as products add it up: along its rows or along its columns. In fp32 both are the same numbers.
template <typename N>
class Laid {
    using Unit = typename Units<N>::Unit;
    using Number = typename Units<N>::Number;
    static constexpr int64_t DEPTH = Units<N>::DEPTH;
    int64_t rows, width;
    std::vector<Unit> across_, down_;

public:
    Laid(int64_t rows, int64_t width)
        : rows(rows), width(width), across_(rows * width / DEPTH), down_(DEPTH > 1 ? rows * width / DEPTH : 0) {}

    const Unit* across() const { return across_.data(); }                           // (rows, width / DEPTH)
    const Unit* down() const { return DEPTH > 1 ? down_.data() : across_.data(); }  // (rows / DEPTH, width)

    // From (positions, features), zero where padded.
    void fill(const N* x, int64_t by_position, int64_t positions, int64_t features) {
        Number* line = reinterpret_cast<Number*>(across_.data());
        for (int64_t t = 0; t < rows; t++, line += width) {
            const int64_t filled = t < positions ? features : 0;
            if constexpr (std::is_same_v<N, Number>)
                std::memcpy(line, x + t * by_position, filled * sizeof *line);
            else
                for (int64_t e = 0; e < filled; e++) store(line[e], x[t * by_position + e]);
            std::memset(line + filled, 0, (width - filled) * sizeof *line);
        }
    }

    // Lays out the columns too, for `down`.
    void turn() {
        if constexpr (DEPTH > 1) {
            const Number* line = reinterpret_cast<const Number*>(across_.data());
            const auto wide = [](const Number* x) { return __builtin_convertvector(*reinterpret_cast<const Halves*>(x), Pairs); };
            for (int64_t t = 0; t < rows; t += 2, line += 2 * width)
                for (int64_t e = 0; e < width; e += LANES)
                    at(down_.data() + t / 2 * width + e) = wide(line + e) | wide(line + width + e) << 16;
        }
    }
};

// Rows of numbers in fp32 that products are made to, and that other products read.
template <typename N>
class Sums {
    using Unit = typename Units<N>::Unit;
    static constexpr int64_t DEPTH = Units<N>::DEPTH;
    int64_t rows, width;
    std::vector<float> numbers;
    std::vector<Unit> across_, down_;

public:
    Sums(int64_t rows, int64_t width)
        : rows(rows), width(width), numbers(rows * width), across_(DEPTH > 1 ? rows * width / 2 : 0), down_(across_.size()) {}

    operator float*() { return numbers.data(); }

    // (rows, width / DEPTH), of the first `filled` of each row.
    const Unit* across(int64_t filled) {
        if constexpr (DEPTH > 1) {
            for (int64_t t = 0; t < rows; t++)
                for (int64_t s = 0; s < filled; s += 2 * LANES) {
                    const float* from = numbers.data() + t * width + s;
                    at(across_.data() + (t * width + s) / 2) = neighbours(at(from), at(from + LANES));
                }
            return across_.data();
        } else
            return numbers.data();
    }

    // (rows / DEPTH, width), likewise.
    const Unit* down(int64_t filled) {
        if constexpr (DEPTH > 1) {
            for (int64_t t = 0; t < rows; t += 2)
                for (int64_t s = 0; s < filled; s += LANES) {
                    const float* from = numbers.data() + t * width + s;
                    at(down_.data() + t / 2 * width + s) = beside(at(from), at(from + width));
                }
            return down_.data();
        } else
            return numbers.data();
    }
};
}  // namespace
