// Products with matrices in codes of 4 bits, less 8, in the order of torch's kernel.

#pragma once

#include "digits.h"

namespace {

// Codes of 4 bits, two of them in a byte for every input: of outputs of the first and of the second half of the block; on ARM of
// outputs beside one another.
template <int WIDTH, int COUNT>
void by_block_of_4_bits(const Product& p, const uint8_t* block, int64_t row, int64_t output) {
    constexpr int64_t EACH = WIDTH * LANES;
    const float* x = p.x + row * p.inputs;
    Floats sums[COUNT][WIDTH] = {};
    for (int64_t g = 0, first = 0; first < p.inputs; g++, first += p.group) {
        Floats part[COUNT][WIDTH] = {};
        const float* const totals = p.totals + g * p.rows + row;
        for (int64_t i = first; i < first + p.group; i++) {
            Floats codes[WIDTH];
#ifdef __x86_64__
            constexpr int64_t HALF = WIDTH / 2;
            for (int j = 0; j < HALF; j++) {
                const Integers both = bytes_at(block + i * (EACH / 2) + j * LANES);
                codes[j] = __builtin_convertvector(both & 15, Floats);
                codes[j + HALF] = __builtin_convertvector(both >> 4, Floats);
            }
#else
            codes_at<WIDTH>(block + i * (EACH / 2), codes);
#endif
            for (int r = 0; r < COUNT; r++) {
                const float number = x[r * p.inputs + i];
                for (int j = 0; j < WIDTH; j++) part[r][j] += codes[j] * number;
            }
        }
        const uint16_t* scales = p.scales_of(g, output);
        for (int j = 0; j < WIDTH; j++) {
            const Pairs pairs = pairs_at(scales + j * LANES * 2);
            for (int r = 0; r < COUNT; r++)
                sums[r][j] += (part[r][j] - 8 * totals[r]) * lower(pairs) + upper(pairs) * totals[r];
        }
    }
    for (int r = 0; r < COUNT; r++) p.put(row + r, output, reinterpret_cast<const float*>(sums[r]), EACH);
}

#ifdef __AVX512BF16__
// Codes of two inputs, of 64 outputs, as pairs of numbers in bf16: looked up in a table that has all of them, less 8.
inline void pairs_of_codes(const uint8_t* codes, __m512i table, __m512i* w) {
    for (int h = 0; h < 2; h++) {
        const __m128i* place = reinterpret_cast<const __m128i*>(codes + h * 16);
        const __m128i one = _mm_loadu_si128(place), next = _mm_loadu_si128(place + 2);
        const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(one, next), _mm_unpacklo_epi8(one, next));
        const __m512i pairs = _mm512_cvtepu8_epi16(both);
        w[h] = _mm512_permutexvar_epi16(pairs, table);  // the fifth bit of an index is another code's
        w[h + 2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(pairs, 4), table);
    }
}
inline __m512i table_of_codes() {
    alignas(64) uint16_t codes[32];
    for (int i = 0; i < 32; i++) codes[i] = to_bfloat16(float(i % 16 - 8));
    return _mm512_load_si512(codes);
}
inline __m512bh everywhere(uint32_t pair) { return (__m512bh)_mm512_set1_epi32(int32_t(pair)); }

// Adds sums of a group's products, of WIDTH vectors of outputs from `scales` on, to those of all groups.
template <int WIDTH, int COUNT>
inline void add_scaled(const __m512 (&part)[COUNT][WIDTH], const uint16_t* scales, const float* totals, float* sums) {
#pragma GCC unroll 4
    for (int j = 0; j < WIDTH; j++) {
        const Pairs pairs = pairs_at(scales + j * LANES * 2);
        const Floats factor = lower(pairs), offset = upper(pairs);
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++)
            floats_at(sums + r * TASK + j * LANES) += Floats(part[r][j]) * factor + offset * totals[r];
    }
}

// Adds a group's products with COUNT rows to sums of 64 outputs each, of WIDTH vectors of outputs at a time.
template <int WIDTH, int COUNT>
inline void add_group(const Product& p, const __m512i* w, int64_t g, int64_t row, const uint16_t* scales, float* sums) {
    const int64_t apart = p.inputs / 2, count = p.group / 2;
    const uint32_t* const x = p.pairs + row * apart + g * count;
    for (int begin = 0; begin < 4; begin += WIDTH) {
        __m512 part[COUNT][WIDTH] = {};
        for (int64_t i = 0; i < count; i++)
            for (int r = 0; r < COUNT; r++)
                for (int j = 0; j < WIDTH; j++)
                    part[r][j] = _mm512_dpbf16_ps(part[r][j], (__m512bh)w[i * 4 + begin + j], everywhere(x[r * apart + i]));
        add_scaled(part, scales + begin * LANES * 2, p.totals + g * p.rows + row, sums + begin * LANES);
    }
}

// The same of the first rows, while the group's codes are looked up, which stay in `w` for the others, and those of the next block
// come nearer.
inline void look_up(
    const Product& p, const uint8_t* codes, __m512i table, int64_t g, const uint16_t* scales, __m512i* w, float* sums
) {
    const int64_t apart = p.inputs / 2, count = p.group / 2;
    const uint32_t* const x = p.pairs + g * count;
    __m512 part[MOST_ROWS][4] = {};
    for (int64_t i = 0; i < count; i++) {
        __m512i* const found = w + i * 4;
        pairs_of_codes(codes + i * TASK, table, found);
        __builtin_prefetch(codes + p.by_block + i * TASK, 0, 2);
#pragma GCC unroll 4
        for (int r = 0; r < MOST_ROWS; r++)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) part[r][j] = _mm512_dpbf16_ps(part[r][j], (__m512bh)found[j], everywhere(x[r * apart + i]));
    }
    add_scaled(part, scales, p.totals + g * p.rows, sums);
}

// Many rows by the pairs of a group of inputs, which are looked up once for all.
void by_groups_of_4_bits(const Product& p, const uint8_t* block, int64_t output) {
    const __m512i table = table_of_codes();
    float* const own = room<1>(p.group / 2 * TASK + p.rows * TASK);
    __m512i* const w = reinterpret_cast<__m512i*>(own);
    float* const sums = own + p.group / 2 * TASK;
    std::fill_n(sums, p.rows * TASK, 0.0f);
    for (int64_t g = 0, first = 0; first < p.inputs; g++, first += p.group) {
        const uint16_t* scales = p.scales_of(g, output);
        look_up(p, block + first * TASK / 2, table, g, scales, w, sums);
        int64_t row = MOST_ROWS;
        for (; row + 8 <= p.rows; row += 8) add_group<2, 8>(p, w, g, row, scales, sums + row * TASK);
        for (; row + 4 <= p.rows; row += 4) add_group<4, 4>(p, w, g, row, scales, sums + row * TASK);
        for (; row < p.rows; row++) add_group<4, 1>(p, w, g, row, scales, sums + row * TASK);
    }
    for (int64_t row = 0; row < p.rows; row++) p.put(row, output, sums + row * TASK, TASK);
}
#endif

// The last block, if it is narrower: a byte holds the codes of two outputs beside one another.
void by_narrow_block_of_4_bits(const Product& p, const uint8_t* block, int64_t output) {
    const int64_t width = p.outputs - output, half = width / 2;
    for (int64_t row = 0; row < p.rows; row++) {
        const float* const x = p.x + row * p.inputs;
        float sums[TASK] = {};
        for (int64_t g = 0, first = 0; first < p.inputs; g++, first += p.group) {
            float even[TASK / 2] = {}, odd[TASK / 2] = {};
            for (int64_t i = first; i < first + p.group; i++)
                for (int64_t o = 0; o < half; o++) {
                    const int32_t both = block[i * half + o];
                    even[o] += float((both & 15) - 8) * x[i];
                    odd[o] += float((both >> 4) - 8) * x[i];
                }
            const uint16_t* scales = p.scales_of(g, output);
            const float whole = p.totals[g * p.rows + row];
            for (int64_t o = 0; o < width; o++)
                sums[o] += (o % 2 ? odd : even)[o / 2] * from_bfloat16(scales[2 * o]) + from_bfloat16(scales[2 * o + 1]) * whole;
        }
        p.put(row, output, sums, width);
    }
}

void by_blocks_of_4_bits(const Product& p, int64_t number) {
    const uint8_t* block = reinterpret_cast<const uint8_t*>(p.weight) + number * p.by_block;
    int64_t row = 0;
    if (p.outputs - number * p.block < p.block) return by_narrow_block_of_4_bits(p, block, number * p.block);
#ifdef BY_DIGITS
    if (p.digits) return by_digits_of_4_bits(p, block, number * p.block);
#endif
#ifdef __AVX512BF16__
    if (p.pairs && p.rows >= MOST_ROWS) return by_groups_of_4_bits(p, block, number * p.block);
#endif
#ifndef __x86_64__
    if (p.block > 4 * LANES) {  // as torch has it where it uses SVE
        for (; row < p.rows; row++) by_block_of_4_bits<8, 1>(p, block, row, number * p.block);
        return;
    }
#endif
    for (; row + MOST_ROWS <= p.rows; row += MOST_ROWS) by_block_of_4_bits<4, MOST_ROWS>(p, block, row, number * p.block);
    for (; row < p.rows; row++) by_block_of_4_bits<4, 1>(p, block, row, number * p.block);
}

}  // namespace
