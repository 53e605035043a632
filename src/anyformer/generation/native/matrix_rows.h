// A product x W^T, and matrices W whose rows lie side by side.

#pragma once

#include "few_rows.h"
#include "rows.h"
#include "tiles.h"

namespace {

enum Layout : int64_t { ROWS, BLOCKS, SCALED_ROWS, BLOCKS_OF_4_BITS };

constexpr int64_t TASK = 64;  // outputs of a task
constexpr int64_t MOST_ROWS = 4;  // rows whose sums stay in registers beside one another

struct Product {
    int64_t layout, kind, block, by_block, group, rows, outputs, inputs;  // by_block: bytes from one block to the next
    const char* weight;
    const char* scales;  // in bf16: one per output; of 4 bits a factor and an offset per group of inputs and output
    const float* x;      // (rows, inputs), `by_x` numbers from one row to the next
    int64_t by_x;
    const uint32_t* pairs;  // the same in pairs of bf16, where the rows have that
    const float* totals;    // of each group of inputs, (group, row), for codes of 4 bits
    const int8_t* digits;   // the same rows in digits (`digits.h`), where codes of 4 bits are multiplied so
    const float* units;     // of each chunk of digits, (row, chunk)
    Strided y;           // strides: from row to row, from output to output

    bool scaled() const { return layout == SCALED_ROWS || layout == BLOCKS_OF_4_BITS; }
    // Factors and offsets of the outputs from `output` on, in pairs, of one group of inputs.
    const uint16_t* scales_of(int64_t number, int64_t output) const {
        return reinterpret_cast<const uint16_t*>(scales) + (number * outputs + output) * 2;
    }
    void put(int64_t row, int64_t output, const float* sums, int64_t count) const {
        stored(sums, y.data + row * y.strides[0] + output * y.strides[1], y.kind, y.strides[1], count);
    }
};

inline float scale_of(const Product& p, int64_t output) {
    return p.scales ? from_bfloat16(reinterpret_cast<const uint16_t*>(p.scales)[output]) : 1.0f;
}

#ifdef __AVX512BF16__
constexpr int64_t PAIRED = 32;  // numbers in bf16 of a vector
constexpr int64_t MANY = 16;  // rows whose products with a task's outputs are kept until all are known

// The first `count` numbers of a vector in bf16; the others are 0.
inline __m512bh paired(const uint16_t* x, int64_t count) {
    return (__m512bh)(count >= PAIRED ? _mm512_loadu_si512(x) : _mm512_maskz_loadu_epi16((uint32_t(1) << count) - 1, x));
}
// Whole numbers of 8 bits, which bf16 has all.
inline void to_bfloat16(const int8_t* codes, int64_t count, uint16_t* to) {
    int64_t i = 0;
    for (; i + PAIRED <= count; i += PAIRED) {
        const __m512bh both = _mm512_cvtne2ps_pbh((__m512)vector_at(codes + i + LANES), (__m512)vector_at(codes + i));
        _mm512_storeu_si512(to + i, (__m512i)both);
    }
    for (; i < count; i++) to[i] = to_bfloat16(float(codes[i]));
}

// The products of two rows of W with COUNT of x, which lie `inputs` apart; found[row * by + which of the two].
template <int COUNT>
inline void dots_of_pairs(const uint16_t* const w[2], const uint16_t* x, int64_t inputs, float* found, int64_t by) {
    __m512 sums[2][COUNT] = {};
    for (int64_t i = 0; i < inputs; i += PAIRED) {
        const __m512bh a = paired(w[0] + i, inputs - i), b = paired(w[1] + i, inputs - i);
        for (int r = 0; r < COUNT; r++) {
            const __m512bh each = paired(x + r * inputs + i, inputs - i);
            sums[0][r] = _mm512_dpbf16_ps(sums[0][r], a, each);
            sums[1][r] = _mm512_dpbf16_ps(sums[1][r], b, each);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < COUNT; r++) found[r * by] = sum_of(sums[0][r]), found[r * by + 1] = sum_of(sums[1][r]);
}

// Rows of W in bf16, or of codes that become so for a while, by pairs of numbers: of many rows of x.
template <typename N>
void by_rows_of_pairs(const Product& p, int64_t begin, int64_t end) {
    const N* weight = reinterpret_cast<const N*>(p.weight);
    const uint16_t* x = reinterpret_cast<const uint16_t*>(p.pairs);
    uint16_t* const codes = reinterpret_cast<uint16_t*>(room<1>(p.inputs));
    for (int64_t row = 0; row < p.rows; row += MANY) {
        float sums[MANY][TASK];  // of an even number of outputs
        const int64_t some = std::min(MANY, p.rows - row);
        for (int64_t o = begin; o < end; o += 2) {
            const N *one = weight + o * p.inputs, *other = o + 1 < end ? one + p.inputs : one;
            const uint16_t* both[2];
            if constexpr (sizeof(N) == 1) {
                to_bfloat16(one, p.inputs, codes), to_bfloat16(other, p.inputs, codes + p.inputs);
                both[0] = codes, both[1] = codes + p.inputs;
            } else {
                both[0] = one, both[1] = other;
            }
            float* const found = &sums[0][o - begin];
            int64_t r = 0;
            const uint16_t* const from = x + row * p.inputs;
            for (; r + 8 <= some; r += 8) dots_of_pairs<8>(both, from + r * p.inputs, p.inputs, found + r * TASK, TASK);
            for (; r + 4 <= some; r += 4) dots_of_pairs<4>(both, from + r * p.inputs, p.inputs, found + r * TASK, TASK);
            for (; r < some; r++) dots_of_pairs<1>(both, from + r * p.inputs, p.inputs, found + r * TASK, TASK);
        }
        for (int64_t r = 0; r < some; r++) {
            for (int64_t o = begin; o < end; o++) sums[r][o - begin] *= scale_of(p, o);
            p.put(row + r, begin, sums[r], end - begin);
        }
    }
}
#endif

#ifdef BY_TILES
template <typename N>
void by_rows_of_tiles(const Product& p, int64_t begin, int64_t end) {
    const N* const weight = reinterpret_cast<const N*>(p.weight) + begin * p.inputs;
    float* const sums = room<3>(MOST_TOGETHER * TASK);
    for (int64_t row = 0; row < p.rows; row += MOST_TOGETHER) {
        const int64_t some = std::min(MOST_TOGETHER, p.rows - row);
        by_tiles(weight, end - begin, p.inputs, p.x + row * p.by_x, some, p.by_x, p.inputs, sums, TASK);
        for (int64_t r = 0; r < some; r++) {
            for (int64_t o = begin; o < end; o++) sums[r * TASK + o - begin] *= scale_of(p, o);
            p.put(row + r, begin, sums + r * TASK, end - begin);
        }
    }
}
#endif

// Rows of W side by side: a sum for each.
template <typename N>
void by_rows(const Product& p, int64_t begin, int64_t end) {
#ifdef BY_TILES
    if (p.rows >= MOST_ROWS) return by_rows_of_tiles<N>(p, begin, end);
#endif
#ifdef __AVX512BF16__
    if constexpr (sizeof(N) <= 2) if (p.pairs && p.rows >= MOST_ROWS) return by_rows_of_pairs<N>(p, begin, end);
#endif
    const N* weight = reinterpret_cast<const N*>(p.weight);
    for (int64_t row = 0; row < p.rows; row += MOST_ROWS) {
        float sums[MOST_ROWS][TASK];
        const int64_t some = std::min(MOST_ROWS, p.rows - row);
        const float* const x = p.x + row * p.by_x;
        int64_t o = begin;
        for (; some < MOST_ROWS && o + 4 <= end; o += 4)
            for (int64_t r = 0; r < some; r++)
                dots_of_four(weight + o * p.inputs, x + r * p.by_x, p.inputs, &sums[r][o - begin]);
        for (; o < end; o++) {
            if (some == MOST_ROWS)
                dots_with_four(weight + o * p.inputs, x, p.inputs, &sums[0][o - begin], TASK);
            else
                for (int64_t r = 0; r < some; r++) sums[r][o - begin] = dot(weight + o * p.inputs, x + r * p.by_x, p.inputs);
        }
        for (int64_t r = 0; r < some; r++) {
            for (o = begin; o < end; o++) sums[r][o - begin] *= scale_of(p, o);
            p.put(row + r, begin, sums[r], end - begin);
        }
    }
}

}  // namespace
