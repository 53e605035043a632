// Products with matrices in codes of 4 bits, less 8, in the order of torch's kernel.

#pragma once

#include "matrix_rows.h"

namespace {

// Codes of 4 bits, two of them in a byte for every input: of outputs of the first and of the second half of the block.
template <int WIDTH, int COUNT>
void by_block_of_4_bits(const Product& p, const uint8_t* block, int64_t row, int64_t output) {
    constexpr int64_t EACH = WIDTH * LANES, HALF = WIDTH / 2;
    const float* x = p.x + row * p.inputs;
    Floats sums[COUNT][WIDTH] = {};
    for (int64_t first = 0; first < p.inputs; first += p.group) {
        Floats part[COUNT][WIDTH] = {};
        float totals[COUNT] = {};
        for (int64_t i = first; i < first + p.group; i++) {
            Floats codes[WIDTH];
            for (int j = 0; j < HALF; j++) {
                const Integers both = bytes_at(block + i * (EACH / 2) + j * LANES);
                codes[j] = __builtin_convertvector(both & 15, Floats);
                codes[j + HALF] = __builtin_convertvector(both >> 4, Floats);
            }
            for (int r = 0; r < COUNT; r++) {
                const float number = x[r * p.inputs + i];
                totals[r] += number;
                for (int j = 0; j < WIDTH; j++) part[r][j] += codes[j] * number;
            }
        }
        const uint16_t* scales = p.scales_of(first, output);
        for (int j = 0; j < WIDTH; j++) {
            const Pairs pairs = pairs_at(scales + j * LANES * 2);
            for (int r = 0; r < COUNT; r++)
                sums[r][j] += (part[r][j] - 8 * totals[r]) * lower(pairs) + upper(pairs) * totals[r];
        }
    }
    for (int r = 0; r < COUNT; r++) p.put(row + r, output, reinterpret_cast<const float*>(sums[r]), EACH);
}

#ifdef __AVX512BF16__
// The same by pairs of inputs in bf16, which has all codes less 8: looked up, two inputs at a time.
template <int COUNT>
void by_pairs_of_4_bits(const Product& p, const uint8_t* block, int64_t row, int64_t output) {
    alignas(64) uint16_t codes[32];
    for (int i = 0; i < 32; i++) codes[i] = to_bfloat16(float(i % 16 - 8));  // the fifth bit of an index is another code's
    const __m512i table = _mm512_load_si512(codes);
    Floats sums[COUNT][4] = {};
    for (int64_t first = 0; first < p.inputs; first += p.group) {
        __m512 part[COUNT][4] = {};
        for (int64_t i = first; i < first + p.group; i += 2) {
            __m512i w[4];
            for (int h = 0; h < 2; h++) {
                const __m128i* place = reinterpret_cast<const __m128i*>(block + i * 32 + h * 16);
                const __m128i one = _mm_loadu_si128(place), next = _mm_loadu_si128(place + 2);
                const __m256i both = _mm256_set_m128i(_mm_unpackhi_epi8(one, next), _mm_unpacklo_epi8(one, next));
                const __m512i pairs = _mm512_cvtepu8_epi16(both);
                w[h] = _mm512_permutexvar_epi16(pairs, table);
                w[h + 2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(pairs, 4), table);
            }
            for (int r = 0; r < COUNT; r++) {
                const __m512bh x = (__m512bh)_mm512_set1_epi32(int32_t(p.pairs[((row + r) * p.inputs + i) / 2]));
                for (int j = 0; j < 4; j++) part[r][j] = _mm512_dpbf16_ps(part[r][j], (__m512bh)w[j], x);
            }
        }
        const uint16_t* scales = p.scales_of(first, output);
        float totals[COUNT];
        for (int r = 0; r < COUNT; r++) totals[r] = total(p.x + (row + r) * p.inputs + first, p.group);
        for (int j = 0; j < 4; j++) {
            const Pairs pairs = pairs_at(scales + j * LANES * 2);
            for (int r = 0; r < COUNT; r++) sums[r][j] += Floats(part[r][j]) * lower(pairs) + upper(pairs) * totals[r];
        }
    }
    for (int r = 0; r < COUNT; r++) p.put(row + r, output, reinterpret_cast<const float*>(sums[r]), 4 * LANES);
}
#endif

// The last block, if it is narrower: a byte holds the codes of two outputs beside one another.
void by_narrow_block_of_4_bits(const Product& p, const uint8_t* block, int64_t output) {
    const int64_t width = p.outputs - output, half = width / 2;
    for (int64_t row = 0; row < p.rows; row++) {
        const float* const x = p.x + row * p.inputs;
        float sums[TASK] = {};
        for (int64_t first = 0; first < p.inputs; first += p.group) {
            float even[TASK / 2] = {}, odd[TASK / 2] = {};
            for (int64_t i = first; i < first + p.group; i++)
                for (int64_t o = 0; o < half; o++) {
                    const int32_t both = block[i * half + o];
                    even[o] += float((both & 15) - 8) * x[i];
                    odd[o] += float((both >> 4) - 8) * x[i];
                }
            const uint16_t* scales = p.scales_of(first, output);
            const float whole = total(x + first, p.group);
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
#ifdef __AVX512BF16__
    if (p.pairs) {
        for (; row + MOST_ROWS <= p.rows; row += MOST_ROWS) by_pairs_of_4_bits<MOST_ROWS>(p, block, row, number * p.block);
        for (; row < p.rows; row++) by_pairs_of_4_bits<1>(p, block, row, number * p.block);
        return;
    }
#endif
    for (; row + MOST_ROWS <= p.rows; row += MOST_ROWS) by_block_of_4_bits<4, MOST_ROWS>(p, block, row, number * p.block);
    for (; row < p.rows; row++) by_block_of_4_bits<4, 1>(p, block, row, number * p.block);
}

}  // namespace
