// What `digits.h` says in instructions of AVX2, which multiply two pairs of bytes and add them up within 16 bits.

#pragma once

#include "vectors.h"

namespace {

using Bytes = __m256i;
constexpr int64_t STEP = 4;
constexpr int ORDER[STEP] = {0, 2, 1, 3};
constexpr int64_t MOST_IN_CHUNK = 64;  // half of them add up to one sum: 32 times 15 codes times 64 is below 2^15
constexpr int BITS = 7;                // two products with whole bytes of codes, 2 times 255 times 64, are below 2^15
constexpr int AT_ONCE = 2;

// Number k of two: of outputs 8 k to 8 k + 7.
inline Bytes codes_at(const uint8_t* lines, int k) {
    const Bytes* const place = reinterpret_cast<const Bytes*>(lines);
    const Bytes a = _mm256_loadu_si256(place), b = _mm256_loadu_si256(place + 1);
    return k ? _mm256_unpackhi_epi8(a, b) : _mm256_unpacklo_epi8(a, b);
}
inline Bytes lower_codes(Bytes codes) { return _mm256_and_si256(codes, _mm256_set1_epi8(15)); }
inline Bytes upper_codes(Bytes codes) { return lower_codes(_mm256_srli_epi16(codes, 4)); }

inline Bytes everywhere(const int8_t* four) { return _mm256_set1_epi32(word_at<int32_t>(four)); }
inline Bytes in_order(const int8_t* digits, int place) {
    const __m128i even = _mm_set1_epi16(0x0100 + place * 0x0404), odd = _mm_set1_epi16(0x0302 + place * 0x0404);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(word_at<int64_t>(digits)), _mm256_set_m128i(odd, even));
}

// Both instructions as one: by itself GCC multiplies much before it adds up, and has no registers left for the sums.
inline Bytes with_products(Bytes sums, Bytes codes, Bytes digits) {
    Bytes products;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0" : "+x"(sums), "=&x"(products) : "x"(codes), "x"(digits));
    return sums;
}
inline Bytes joined(Bytes high, Bytes low) {
    return _mm256_add_epi32(_mm256_madd_epi16(high, _mm256_set1_epi16(1 << BITS)), _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
}
inline Floats converted(Bytes whole) { return _mm256_cvtepi32_ps(whole); }
inline float greatest_of(Floats x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline void whole_sums(const Bytes (&own)[2][2], const Bytes (&above)[2][2], Floats (&found)[4]) {
    const Bytes places = _mm256_set1_epi32(1 << 16 | 1 << BITS);
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
        auto lower = [&](int digit) { return _mm256_sub_epi16(own[digit][k], _mm256_slli_epi16(above[digit][k], 4)); };
        const Bytes high[2] = {lower(HIGH), above[HIGH][k]}, low[2] = {lower(LOW), above[LOW][k]};
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            const Bytes a = _mm256_madd_epi16(_mm256_unpacklo_epi16(high[h], low[h]), places);
            const Bytes b = _mm256_madd_epi16(_mm256_unpackhi_epi16(high[h], low[h]), places);
            const Bytes halves = _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
            found[h * 2 + k] = converted(halves);
        }
    }
}

inline void put_fours(const Bytes (&codes)[2], Bytes* to) {
    const Bytes in_turn = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) to[k] = _mm256_shuffle_epi8(_mm256_permute4x64_epi64(codes[k], 0xd8), in_turn);
}

}  // namespace
