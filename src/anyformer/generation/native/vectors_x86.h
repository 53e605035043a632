// What vectors of GCC's say in no other way than by instructions of x86: see `vectors.h`.

#pragma once

#include <immintrin.h>

namespace {

// Eight numbers as fp32, whatever the widest vectors are.
inline __m256 eight_at(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 eight_at(const uint16_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline __m256 eight_at(const int8_t* p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline void store_sums_of_eight(float* to, __m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256 each = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(each), _mm256_extractf128_ps(each, 1)));
}

// By its own instructions: GCC widens the halves of a vector by themselves and puts them together again, in twice as many.
#ifdef __AVX512F__
inline Floats vector_at(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline Floats vector_at(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Integers bytes_at(const uint8_t* p) {
    return Integers(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
#else
inline Floats vector_at(const uint16_t* p) { return eight_at(p); }
inline Floats vector_at(const int8_t* p) { return eight_at(p); }
inline Integers bytes_at(const uint8_t* p) {
    return Integers(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
#endif

inline float sum_of(Floats x) {
#ifdef __AVX512F__
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), upper);
#else
    const __m256 eight = x;
#endif
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
#ifdef __AVX512F__
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 each = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(each), 1));
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(each), upper);
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
#else
    store_sums_of_eight(to, a, b, c, d);
#endif
}

}  // namespace
