// Products with codes of 4 bits: activations become whole numbers of two digits for a while, of which processors multiply and add
// up several times as many at a time as of numbers in fp32 or bf16.
//
// The codes of STEP inputs are read together. They lie by inputs, two of these in a vector, so vectors of `codes_at` have bytes
// of even inputs of an output beside one another in their first half, and of its odd inputs in the second one: in ORDER. Bytes
// hold two codes: sums with whole bytes less 16 times those with the upper codes are sums with the lower codes.

#pragma once

#include "matrix_rows.h"

namespace {

enum Digit { HIGH, LOW };
template <typename Word>
inline Word word_at(const int8_t* bytes) {
    Word word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

}  // namespace

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define BY_DIGITS 1
#include "digits_avx512.h"
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define BY_DIGITS 1
#include "digits_avx2.h"
#endif

namespace {

#ifdef BY_DIGITS
constexpr int64_t BLOCK = 4 * LANES;          // outputs of a block of torch's kernel
constexpr int64_t LINES = STEP * BLOCK / 2;   // bytes of a step
constexpr int CODES = LINES / sizeof(Bytes);  // vectors of these
constexpr int BESIDE = 2;                     // vectors of fours whose sums stay in registers, of AT_ONCE rows
constexpr int FEWEST = 8;                     // of the fours of a chunk, which are some times this
constexpr int32_t BASE = 1 << BITS;           // of digits from -BASE / 2 to BASE / 2 - 1
constexpr float MOST_WHOLE = (BASE / 2 - 1) * BASE + BASE / 2 - 1;

// Whether rows of this are multiplied as digits: rows of bf16, but for many where pairs of these are multiplied as fast.
inline bool takes_digits(const Product& p) {
#ifdef __AVX512BF16__
    return p.pairs && p.rows < MOST_ROWS;
#else
    return p.pairs;
#endif
}
inline int64_t chunk_of(int64_t group) { return std::min(group, MOST_IN_CHUNK); }

// A chunk of `count` activations x = unit (BASE high + low), rounded by half a unit: the 2 MOST_WHOLE-th part of the largest,
// where bf16, from which they come, rounds by the 512th part of each. Four high digits lie before their four low ones.
void put_digits(const float* x, int64_t count, int8_t* digits, float* unit) {
    Floats sizes = {};
    int8_t high[MOST_IN_CHUNK], low[MOST_IN_CHUNK];
    for (int64_t i = 0; i < count; i += LANES) {
        const Floats each = floats_at(x + i), size = each < 0 ? -each : each;
        sizes = size > sizes ? size : sizes;
    }
    const float largest = greatest_of(sizes), by = largest > 0 ? MOST_WHOLE / largest : 0.0f;
    *unit = largest / MOST_WHOLE;
    for (int64_t i = 0; i < count; i++) {
        const int32_t whole = int32_t(std::nearbyint(x[i] * by)), above = (whole + BASE / 2) >> BITS;
        high[i] = int8_t(above), low[i] = int8_t(whole - above * BASE);
    }
    for (int64_t i = 0; i < count; i += STEP, digits += 2 * STEP)
#pragma GCC unroll 8
        for (int64_t k = 0; k < STEP; k++) {
            const int64_t from = i + ORDER[k], to = k / 4 * 8 + k % 4;
            digits[to] = high[from], digits[to + 4] = low[from];
        }
}

// Products of some steps with one row, for all outputs.
inline void of_one_row(const uint8_t* lines, const int8_t* digits, int64_t steps, Floats (&found)[4]) {
    Bytes own[2][CODES] = {}, above[2][CODES] = {};
#pragma GCC unroll 4
    for (int64_t i = 0; i < steps; i++, lines += LINES, digits += 2 * STEP) {
        const Bytes high = in_order(digits, HIGH), low = in_order(digits, LOW);
#pragma GCC unroll 4
        for (int k = 0; k < CODES; k++) {
            const Bytes codes = codes_at(lines, k), upper = upper_codes(codes);
            own[HIGH][k] = with_products(own[HIGH][k], codes, high);
            own[LOW][k] = with_products(own[LOW][k], codes, low);
            above[HIGH][k] = with_products(above[HIGH][k], upper, high);
            above[LOW][k] = with_products(above[LOW][k], upper, low);
        }
    }
    whole_sums(own, above, found);
}

// Products of `count` fours of inputs, whose codes lie in vectors of all outputs, with COUNT rows.
template <int COUNT>
inline void of_rows(const Bytes* fours, const int8_t* digits, int64_t apart, int64_t count, Floats (&found)[COUNT][4]) {
#pragma GCC unroll 1
    for (int begin = 0; begin < 4; begin += BESIDE) {
        Bytes highs[COUNT][BESIDE] = {}, lows[COUNT][BESIDE] = {};
        for (int64_t i = 0; i < count;)
#pragma GCC unroll 8
            for (int each = 0; each < FEWEST; each++, i++)
#pragma GCC unroll 4
                for (int r = 0; r < COUNT; r++) {
                    const int8_t* const own = digits + r * apart + i * 8;
                    const Bytes high = everywhere(own), low = everywhere(own + 4);
#pragma GCC unroll 2
                    for (int v = 0; v < BESIDE; v++) {
                        highs[r][v] = with_products(highs[r][v], fours[i * 4 + begin + v], high);
                        lows[r][v] = with_products(lows[r][v], fours[i * 4 + begin + v], low);
                    }
                }
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++)
#pragma GCC unroll 2
            for (int v = 0; v < BESIDE; v++) found[r][begin + v] = converted(joined(highs[r][v], lows[r][v]));
    }
}

// What a group's sums of whole numbers with codes are multiplied by, and what the sum of its activations is, for all outputs.
struct Factors {
    Floats factor[4], offset[4];
};
inline Factors factors_at(const uint16_t* scales) {
    Factors made;
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        const Pairs pairs = pairs_at(scales + v * LANES * 2);
        made.factor[v] = lower(pairs), made.offset[v] = upper(pairs) - 8 * lower(pairs);
    }
    return made;
}

void one_row_by_digits(const Product& p, const uint8_t* block, int64_t output) {
    const int64_t chunk = chunk_of(p.group), chunks = p.group / chunk;
    Floats sums[4] = {};
    for (int64_t g = 0, c = 0; g < p.inputs / p.group; g++) {
        const Factors by = factors_at(p.scales_of(g, output));
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) sums[v] += by.offset[v] * p.totals[g];
        for (const int64_t end = c + chunks; c < end; c++) {
            Floats found[4];
            of_one_row(block + c * chunk * BLOCK / 2, p.digits + c * chunk * 2, chunk / STEP, found);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) sums[v] += found[v] * (by.factor[v] * p.units[c]);
        }
    }
    p.put(0, output, reinterpret_cast<const float*>(sums), BLOCK);
}

// Adds products of a chunk of inputs with COUNT rows to their sums. Numbers of a row lie `inputs` and `chunks` from the next's.
template <int COUNT>
inline void add_chunk(
    const Bytes* fours, int64_t count, const int8_t* digits, int64_t inputs, const float* units, int64_t chunks,
    const Factors& by, Floats (*sums)[4]
) {
    Floats found[COUNT][4];
    of_rows<COUNT>(fours, digits, 2 * inputs, count, found);
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) sums[r][v] += found[r][v] * (by.factor[v] * units[r * chunks]);
}

// The codes of `inputs`, that lie in `lines`, as fours; those of the next block, `by_block` further, come nearer meanwhile.
inline void read_fours(const uint8_t* lines, int64_t by_block, int64_t inputs, Bytes* to) {
    for (const Bytes* const end = to + inputs; to < end; to += STEP, lines += LINES) {
        Bytes lower[CODES], upper[CODES];
        for (int64_t b = 0; b < LINES; b += CACHE_LINE) __builtin_prefetch(lines + by_block + b, 0, 2);
#pragma GCC unroll 4
        for (int k = 0; k < CODES; k++) {
            const Bytes codes = codes_at(lines, k);
            lower[k] = lower_codes(codes), upper[k] = upper_codes(codes);
        }
        put_fours(lower, to), put_fours(upper, to + 2);
    }
}

void by_digits_of_4_bits(const Product& p, const uint8_t* block, int64_t output) {
    if (p.rows == 1) return one_row_by_digits(p, block, output);
    const int64_t chunk = chunk_of(p.group), chunks = p.inputs / chunk;
    Bytes* const fours = reinterpret_cast<Bytes*>(room<4>(chunk * BLOCK / sizeof(float)));
    Floats(*const sums)[4] = reinterpret_cast<Floats(*)[4]>(room<1>(p.rows * BLOCK));
    std::fill_n(reinterpret_cast<float*>(sums), p.rows * BLOCK, 0.0f);
    for (int64_t c = 0; c < chunks; c++) {
        const int64_t g = c * chunk / p.group;
        const Factors by = factors_at(p.scales_of(g, output));
        for (int64_t row = 0; row < p.rows && c * chunk % p.group == 0; row++)
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) sums[row][v] += by.offset[v] * p.totals[g * p.rows + row];
        read_fours(block + c * chunk * BLOCK / 2, p.by_block, chunk, fours);
        auto add = [&](auto rows, int64_t row) {
            const int8_t* const digits = p.digits + 2 * (row * p.inputs + c * chunk);
            add_chunk<rows>(fours, chunk / 4, digits, p.inputs, p.units + row * chunks + c, chunks, by, sums + row);
        };
        int64_t row = 0;
        for (; row + AT_ONCE <= p.rows; row += AT_ONCE) add(std::integral_constant<int, AT_ONCE>(), row);
        for (; row < p.rows; row++) add(std::integral_constant<int, 1>(), row);
    }
    for (int64_t row = 0; row < p.rows; row++) p.put(row, output, reinterpret_cast<const float*>(sums[row]), BLOCK);
}
#endif

}  // namespace
