// What vectors of GCC's say in no other way than by instructions of 64-bit ARM: see `vectors.h`.

#pragma once

#include <arm_neon.h>

namespace {

typedef uint16_t Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));
inline Floats vector_at(const uint16_t* p) {
    return as_floats(__builtin_convertvector(*reinterpret_cast<const Halves*>(p), Pairs) << 16);
}
inline Floats vector_at(const int8_t* p) {
    int8x8_t four = {};
    std::memcpy(&four, p, LANES);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(four))));
}

// Two codes of 4 bits in a byte, of outputs beside one another.
template <int WIDTH>
inline void codes_at(const uint8_t* line, Floats* codes) {
    for (int j = 0; j < WIDTH; j += 4) {
        const uint8x8_t both = vld1_u8(line + j * LANES / 2);
        const uint8x16_t each = vcombine_u8(vand_u8(both, vdup_n_u8(15)), vshr_n_u8(both, 4));
        const uint8x16_t turned = vzip1q_u8(each, vextq_u8(each, each, 8));
        const uint16x8_t lower = vmovl_u8(vget_low_u8(turned)), upper = vmovl_high_u8(turned);
        codes[j] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(lower)));
        codes[j + 1] = vcvtq_f32_u32(vmovl_high_u16(lower));
        codes[j + 2] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(upper)));
        codes[j + 3] = vcvtq_f32_u32(vmovl_high_u16(upper));
    }
}

inline float sum_of(Floats x) { return vaddvq_f32(x); }

inline void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    vst1q_f32(to, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}

}  // namespace
