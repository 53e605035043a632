// Products with codes of 4 bits on processors with AVX2 alone: activations become whole numbers for a while, of which such a
// processor multiplies and adds up more than twice as many at a time as of numbers in fp32.

#pragma once

#include "matrix_rows.h"

namespace {

#if defined(__AVX2__) && !defined(__AVX512F__)
#define BY_DIGITS 1
constexpr int64_t BLOCK = 32;  // outputs of a block of torch's kernel here
constexpr int64_t CHUNK_INPUTS = 32;  // inputs whose products with codes add up within 16 bits
constexpr int64_t CHUNK_PAIRS = CHUNK_INPUTS / 2;
constexpr float MOST_WHOLE = 63 * 128 + 63;  // of two digits from -64 to 63: 15 codes times 32 of them are below 2^15

// 32 activations x = scale (128 high + low), rounded by at most the 16,254th part of the largest one: bf16, from which they come,
// rounds by the 512th part of each. A pair of digits stands twice in a word, for two outputs.
struct Chunk {
    uint32_t high[CHUNK_PAIRS], low[CHUNK_PAIRS];
    float scale;
};

// The pairs of eight digits, each twice.
inline void put_pairs(__m256i digits, uint32_t* to) {
    const __m256i words = _mm256_packs_epi32(digits, digits);
    const __m256i bytes = _mm256_packs_epi16(words, words), twice = _mm256_unpacklo_epi16(bytes, bytes);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(twice));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2), _mm256_extracti128_si256(twice, 1));
}

inline float greatest_of(__m256 x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

Chunk chunk_of(const float* x) {
    constexpr int VECTORS = CHUNK_INPUTS / 8;
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 numbers[VECTORS], most = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        numbers[v] = _mm256_loadu_ps(x + v * 8);
        most = _mm256_max_ps(_mm256_andnot_ps(sign, numbers[v]), most);
    }
    Chunk made;
    const float largest = greatest_of(most);
    made.scale = largest / MOST_WHOLE;
    const __m256 by = _mm256_set1_ps(largest > 0 ? MOST_WHOLE / largest : 0.0f);
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
        const __m256i whole = _mm256_cvtps_epi32(_mm256_mul_ps(numbers[v], by));
        const __m256i high = _mm256_srai_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(64)), 7);
        put_pairs(high, made.high + v * 4);
        put_pairs(_mm256_sub_epi32(whole, _mm256_slli_epi32(high, 7)), made.low + v * 4);
    }
    return made;
}

// Codes of two inputs beside one another, of outputs of the first and of the second half of the block.
inline void unpack_pair(const uint8_t* lines, __m256i* codes) {
    const __m256i four_bits = _mm256_set1_epi8(15), in_turn = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    const __m256i two_lines = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines));
    const __m256i both = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(two_lines, 0xd8), in_turn);
    codes[0] = _mm256_and_si256(both, four_bits);
    codes[1] = _mm256_and_si256(_mm256_srli_epi16(both, 4), four_bits);
}

// Eight sums are of four outputs from this one on, and of the four that are 8 further.
inline int64_t first_output(int64_t vector, int64_t half) { return vector * 16 + half * 4; }

// Factors and offsets of a block's outputs, in the order of their sums.
struct Factors {
    __m256 factor[BLOCK / 8], offset[BLOCK / 8];
};

// From pairs of bf16.
inline Factors factors_of(const uint16_t* scales) {
    Factors made;
#pragma GCC unroll 4
    for (int v = 0; v < BLOCK / 8; v++) {
        const __m128i* four = reinterpret_cast<const __m128i*>(scales + first_output(v / 2, v % 2) * 2);
        const __m256i both = _mm256_loadu2_m128i(four + 2, four);
        made.factor[v] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
        made.offset[v] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(int32_t(0xffff0000u))));
    }
    return made;
}

// Adds products of a group of inputs with one row, which adds up to `total` there, to its sums. `codes(pair, to)` gives the codes
// of a pair of inputs.
template <typename Codes>
inline void add_group(
    const Codes& codes, const Chunk* x, int64_t apart, int64_t chunks, float total, const Factors& factors, __m256* sums
) {
    __m256 products[BLOCK / 8];
    std::fill_n(products, BLOCK / 8, _mm256_set1_ps(-8 * total));
    for (int64_t first = 0; first < chunks * CHUNK_PAIRS; first += CHUNK_PAIRS, x += apart) {
        __m256i high[2] = {}, low[2] = {};
#pragma GCC unroll 2
        for (int64_t pair = 0; pair < CHUNK_PAIRS; pair++) {
            __m256i each[2];
            codes(first + pair, each);
            const __m256i a = _mm256_set1_epi32(int32_t(x->high[pair])), b = _mm256_set1_epi32(int32_t(x->low[pair]));
#pragma GCC unroll 2
            for (int v = 0; v < 2; v++) {
                high[v] = _mm256_add_epi16(high[v], _mm256_maddubs_epi16(each[v], a));
                low[v] = _mm256_add_epi16(low[v], _mm256_maddubs_epi16(each[v], b));
            }
        }
        const __m256i weights = _mm256_set1_epi32(1 << 16 | 128);
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK / 8; v++) {
            const __m256i a = high[v / 2], b = low[v / 2];
            const __m256i pairs = v % 2 ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b);
            const __m256 whole = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, weights));
            products[v] = _mm256_fmadd_ps(whole, _mm256_set1_ps(x->scale), products[v]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < BLOCK / 8; v++) {
        sums[v] = _mm256_fmadd_ps(factors.offset[v], _mm256_set1_ps(total), sums[v]);
        sums[v] = _mm256_fmadd_ps(products[v], factors.factor[v], sums[v]);
    }
}

// A block of outputs; `chunks` are of all rows, (chunk, row).
void by_digits_of_4_bits(const Product& p, const uint8_t* block, int64_t output) {
    constexpr int64_t VECTORS = BLOCK / 8;
    const int64_t pairs = p.group / 2, chunks = p.group / CHUNK_INPUTS;
    __m256i* const codes = reinterpret_cast<__m256i*>(room<4>(pairs * BLOCK / 2));
    __m256* const sums = reinterpret_cast<__m256*>(room<1>(p.rows * BLOCK));
    std::fill_n(reinterpret_cast<float*>(sums), p.rows * BLOCK, 0.0f);
    for (int64_t g = 0; g < p.inputs / p.group; g++) {
        const uint8_t* const lines = block + g * p.group * BLOCK / 2;
        const Factors factors = factors_of(p.scales_of(g, output));
        const Chunk* const x = p.chunks + g * chunks * p.rows;
        const float* const totals = p.totals + g * p.rows;
        if (p.rows == 1) {
            auto unpacking = [=](int64_t pair, __m256i* to) { unpack_pair(lines + pair * BLOCK, to); };
            add_group(unpacking, x, 1, chunks, totals[0], factors, sums);
            continue;
        }
        for (int64_t pair = 0; pair < pairs; pair++) unpack_pair(lines + pair * BLOCK, codes + pair * 2);
        auto unpacked = [&](int64_t pair, __m256i* to) { to[0] = codes[pair * 2], to[1] = codes[pair * 2 + 1]; };
        for (int64_t row = 0; row < p.rows; row++)
            add_group(unpacked, x + row, p.rows, chunks, totals[row], factors, sums + row * VECTORS);
    }
    for (int64_t row = 0; row < p.rows; row++) {
        float found[BLOCK];
        for (int v = 0; v < VECTORS; v++) {
            float* const to = found + first_output(v / 2, v % 2);
            const __m256 sum = sums[row * VECTORS + v];
            _mm_storeu_ps(to, _mm256_castps256_ps128(sum)), _mm_storeu_ps(to + 8, _mm256_extractf128_ps(sum, 1));
        }
        p.put(row, output, found, BLOCK);
    }
}
#endif

}  // namespace
