// What `digits.h` says in instructions of AVX-512 that multiply four pairs of bytes and add them up (VNNI).

#pragma once

#include "vectors.h"

namespace {

using Bytes = __m512i;
constexpr int64_t STEP = 8;
constexpr int ORDER[STEP] = {0, 2, 4, 6, 1, 3, 5, 7};
constexpr int64_t MOST_IN_CHUNK = 128;  // any number of products adds up within 32 bits here
constexpr int BITS = 8;
constexpr int AT_ONCE = 4;

// Number k of four: of outputs 4 k to 4 k + 3, and of the four that are 16 further.
inline Bytes codes_at(const uint8_t* lines, int k) {
    const Bytes a = _mm512_loadu_si512(lines), b = _mm512_loadu_si512(lines + 64);
    const Bytes c = _mm512_loadu_si512(lines + 128), d = _mm512_loadu_si512(lines + 192);
    const Bytes first = k < 2 ? _mm512_unpacklo_epi8(a, b) : _mm512_unpackhi_epi8(a, b);
    const Bytes second = k < 2 ? _mm512_unpacklo_epi8(c, d) : _mm512_unpackhi_epi8(c, d);
    return k % 2 ? _mm512_unpackhi_epi16(first, second) : _mm512_unpacklo_epi16(first, second);
}
inline Bytes lower_codes(Bytes codes) { return _mm512_and_si512(codes, _mm512_set1_epi8(15)); }
inline Bytes upper_codes(Bytes codes) { return lower_codes(_mm512_srli_epi16(codes, 4)); }

inline Bytes everywhere(const int8_t* four) { return _mm512_set1_epi32(word_at<int32_t>(four)); }
inline Bytes in_order(const int8_t* digits, int place) {
    const Bytes both = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(digits)));
    const __m256i even = _mm256_set1_epi32(0x03020100 + place * 0x04040404);
    const __m256i odd = _mm256_set1_epi32(0x0b0a0908 + place * 0x04040404);
    return _mm512_shuffle_epi8(both, _mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
}

inline Bytes with_products(Bytes sums, Bytes codes, Bytes digits) { return _mm512_dpbusd_epi32(sums, codes, digits); }
inline Bytes joined(Bytes high, Bytes low) { return _mm512_add_epi32(_mm512_slli_epi32(high, BITS), low); }
inline Floats converted(Bytes whole) { return _mm512_cvtepi32_ps(whole); }
inline float greatest_of(Floats x) { return _mm512_reduce_max_ps(x); }

inline void whole_sums(const Bytes (&own)[2][4], const Bytes (&above)[2][4], Floats (&found)[4]) {
    Bytes each[2][4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        each[1][k] = joined(above[HIGH][k], above[LOW][k]);
        each[0][k] = _mm512_sub_epi32(joined(own[HIGH][k], own[LOW][k]), _mm512_slli_epi32(each[1][k], 4));
    }
    auto halves = [](Bytes a, Bytes b) {
        return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
    };
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        const Bytes a = halves(each[h][0], each[h][1]), b = halves(each[h][2], each[h][3]);
        found[h * 2] = converted(_mm512_shuffle_i32x4(a, b, 0x88));
        found[h * 2 + 1] = converted(_mm512_shuffle_i32x4(a, b, 0xdd));
    }
}

inline void put_fours(const Bytes (&codes)[4], Bytes* to) {
    auto put = [](Bytes a, Bytes b, Bytes* place) {
        place[0] = _mm512_shuffle_i32x4(a, b, 0x88), place[1] = _mm512_shuffle_i32x4(a, b, 0xdd);
    };
    put(_mm512_shuffle_i32x4(codes[0], codes[1], 0x44), _mm512_shuffle_i32x4(codes[2], codes[3], 0x44), to);
    put(_mm512_shuffle_i32x4(codes[0], codes[1], 0xee), _mm512_shuffle_i32x4(codes[2], codes[3], 0xee), to + 4);
}

}  // namespace
