// AArch64 Advanced SIMD, at the level neondotprod with its dot products of bytes. Included by
// simd.h only.
#pragma once

#include <arm_neon.h>

#if defined(MLX_RUNNERS_ISA_NEONDOTPROD) != defined(__ARM_FEATURE_DOTPROD)
#error "the compiler's flags are those of another level"
#endif

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

constexpr int kWidth = 4;
constexpr int kMr = 6;
constexpr int kNv = 4;
constexpr int kRegisters = 32;
constexpr bool kMultipliesBytes = false;

struct F32 {
  float32x4_t v;
};
struct Mask {
  uint32x4_t v;
};

MLX_RUNNERS_INLINE F32 zero() { return {vdupq_n_f32(0.0f)}; }
MLX_RUNNERS_INLINE F32 set1(float x) { return {vdupq_n_f32(x)}; }
MLX_RUNNERS_INLINE F32 load(const float* p) { return {vld1q_f32(p)}; }
MLX_RUNNERS_INLINE void store(float* p, F32 a) { vst1q_f32(p, a.v); }
MLX_RUNNERS_INLINE F32 load_n(const float* p, int n, float fill = 0.0f) {
  float lanes[4] = {fill, fill, fill, fill};
  memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return {vld1q_f32(lanes)};
}
MLX_RUNNERS_INLINE void store_n(float* p, F32 a, int n) {
  float lanes[4];
  vst1q_f32(lanes, a.v);
  memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
}

MLX_RUNNERS_INLINE F32 operator+(F32 a, F32 b) { return {vaddq_f32(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator-(F32 a, F32 b) { return {vsubq_f32(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator*(F32 a, F32 b) { return {vmulq_f32(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator/(F32 a, F32 b) { return {vdivq_f32(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 fma(F32 a, F32 b, F32 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 fnma(F32 a, F32 b, F32 c) { return {vfmsq_f32(c.v, a.v, b.v)}; }
MLX_RUNNERS_INLINE Mask gt(F32 a, F32 b) { return {vcgtq_f32(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 select(Mask m, F32 a, F32 b) { return {vbslq_f32(m.v, a.v, b.v)}; }
// Not vmaxq_f32, which keeps a NaN of either side.
MLX_RUNNERS_INLINE F32 max(F32 a, F32 b) { return select(gt(a, b), a, b); }
MLX_RUNNERS_INLINE F32 min(F32 a, F32 b) { return select(gt(b, a), a, b); }
MLX_RUNNERS_INLINE F32 mul_pow2(F32 x, F32 t) {
  const int32x4_t n = vshlq_n_s32(vreinterpretq_s32_f32(t.v), 23);
  return {vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(x.v), n))};
}
MLX_RUNNERS_INLINE F32 swap_pairs(F32 a) { return {vrev64q_f32(a.v)}; }
MLX_RUNNERS_INLINE float hsum(F32 a) { return vaddvq_f32(a.v); }
MLX_RUNNERS_INLINE void store_hsum4(float* p, F32 a, F32 b, F32 c, F32 d) {
  vst1q_f32(p, vpaddq_f32(vpaddq_f32(a.v, b.v), vpaddq_f32(c.v, d.v)));
}
MLX_RUNNERS_INLINE float hmax(F32 a) { return vmaxvq_f32(a.v); }
MLX_RUNNERS_INLINE float first(F32 a) { return vgetq_lane_f32(a.v, 0); }

/// dst[k * dst_step + i] = src[i * src_step + k] for i, k < 4.
MLX_RUNNERS_INLINE void transpose4(const float* src, int64_t src_step, float* dst,
                                   int64_t dst_step) {
  const float32x4_t a = vld1q_f32(src);
  const float32x4_t b = vld1q_f32(src + src_step);
  const float32x4_t c = vld1q_f32(src + 2 * src_step);
  const float32x4_t d = vld1q_f32(src + 3 * src_step);
  const float64x2_t ab0 = vreinterpretq_f64_f32(vtrn1q_f32(a, b));
  const float64x2_t ab1 = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
  const float64x2_t cd0 = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
  const float64x2_t cd1 = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
  vst1q_f32(dst, vreinterpretq_f32_f64(vtrn1q_f64(ab0, cd0)));
  vst1q_f32(dst + dst_step, vreinterpretq_f32_f64(vtrn1q_f64(ab1, cd1)));
  vst1q_f32(dst + 2 * dst_step, vreinterpretq_f32_f64(vtrn2q_f64(ab0, cd0)));
  vst1q_f32(dst + 3 * dst_step, vreinterpretq_f32_f64(vtrn2q_f64(ab1, cd1)));
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

struct Bytes {
  uint8x16_t low;
  uint8x16_t high;
};
struct Int {
  int32x4_t v;
};

MLX_RUNNERS_INLINE Bytes load_bytes(const void* p) {
  const auto* bytes = static_cast<const uint8_t*>(p);
  return {vld1q_u8(bytes), vld1q_u8(bytes + 16)};
}
MLX_RUNNERS_INLINE Bytes set1_bytes(int x) {
  const uint8x16_t a = vdupq_n_u8(static_cast<uint8_t>(x));
  return {a, a};
}
MLX_RUNNERS_INLINE Bytes operator&(Bytes a, Bytes b) {
  return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)};
}
MLX_RUNNERS_INLINE Bytes operator|(Bytes a, Bytes b) {
  return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)};
}
MLX_RUNNERS_INLINE Bytes operator^(Bytes a, Bytes b) {
  return {veorq_u8(a.low, b.low), veorq_u8(a.high, b.high)};
}
// A right shift by 0 doesn't exist.
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_left(Bytes a) {
  return {vshlq_n_u8(a.low, kBits), vshlq_n_u8(a.high, kBits)};
}
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_right(Bytes a) {
  if constexpr (kBits == 0) {
    return a;
  } else {
    return {vshrq_n_u8(a.low, kBits), vshrq_n_u8(a.high, kBits)};
  }
}
MLX_RUNNERS_INLINE Bytes low_nibbles(Bytes a) { return a & set1_bytes(15); }
MLX_RUNNERS_INLINE Bytes nibbles(const uint8_t* p) {
  const uint8x16_t packed = vld1q_u8(p);
  return {vandq_u8(packed, vdupq_n_u8(15)), vshrq_n_u8(packed, 4)};
}
MLX_RUNNERS_INLINE Bytes nibble_pairs(const uint8_t* p) {
  const Bytes sides = nibbles(p);
  return {vzip1q_u8(sides.low, sides.high), vzip2q_u8(sides.low, sides.high)};
}
MLX_RUNNERS_INLINE Bytes look_up(const uint8_t* table, Bytes codes) {
  const uint8x16_t bytes = vld1q_u8(table);
  return {vqtbl1q_u8(bytes, codes.low), vqtbl1q_u8(bytes, codes.high)};
}
MLX_RUNNERS_INLINE uint8x16_t spread16(const uint8_t* p, int value) {
  static constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x16_t bytes = vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1]));
  return vandq_u8(vtstq_u8(bytes, vld1q_u8(kBit)), vdupq_n_u8(static_cast<uint8_t>(value)));
}
MLX_RUNNERS_INLINE Bytes spread_bits(const uint8_t* p, int value) {
  return {spread16(p, value), spread16(p + 2, value)};
}

MLX_RUNNERS_INLINE float half_to_float(const uint8_t* p) {
  __fp16 half;
  memcpy(&half, p, sizeof(half));
  return half;
}
MLX_RUNNERS_INLINE void half_floats(uint64_t four, float* out) {
  vst1q_f32(out, vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(four))));
}
MLX_RUNNERS_INLINE void scale8_unsigned(uint64_t eight, float factor, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = factor * static_cast<float>(static_cast<uint8_t>(eight >> 8 * i));
  }
}
MLX_RUNNERS_INLINE void scale8_signed(uint64_t eight, float factor, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = factor * static_cast<float>(static_cast<int8_t>(eight >> 8 * i));
  }
}

MLX_RUNNERS_INLINE Int zero_int() { return {vdupq_n_s32(0)}; }
MLX_RUNNERS_INLINE Int load_int(const void* p) {
  return {vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p)))};
}
MLX_RUNNERS_INLINE Int set1_int(const int8_t* four) {
  int32_t bits;
  memcpy(&bits, four, sizeof(bits));
  return {vdupq_n_s32(bits)};
}
MLX_RUNNERS_INLINE Int times_256(Int a) { return {vshlq_n_s32(a.v, 8)}; }
MLX_RUNNERS_INLINE void store_rounded(int32_t* p, F32 a) { vst1q_s32(p, vcvtnq_s32_f32(a.v)); }
MLX_RUNNERS_INLINE F32 to_float(Int a) { return {vcvtq_f32_s32(a.v)}; }

/// Adds the dot products of fours of unsigned and signed bytes.
template <bool kNarrow>
MLX_RUNNERS_INLINE int32x4_t dot16(int32x4_t sum, uint8x16_t codes, int8x16_t x) {
#if defined(__ARM_FEATURE_DOTPROD)
  if constexpr (kNarrow) {
    return vdotq_s32(sum, vreinterpretq_s8_u8(codes), x);
  } else {
    // The instruction's bytes are signed: with 128 less, minus -128 times x, which products of
    // several codes with the same x share.
    const int8x16_t less = vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(128)));
    const int32x4_t rest = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(-128), x);
    return vsubq_s32(vdotq_s32(sum, less, x), rest);
  }
#else
  const int16x8_t low =
      vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(codes))), vmovl_s8(vget_low_s8(x)));
  const int16x8_t high =
      vmulq_s16(vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(codes))), vmovl_s8(vget_high_s8(x)));
  return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
#endif
}
template <bool kNarrow>
MLX_RUNNERS_INLINE Int dot4(Int sum, Int codes, Int x) {
  return {dot16<kNarrow>(sum.v, vreinterpretq_u8_s32(codes.v), vreinterpretq_s8_s32(x.v))};
}

MLX_RUNNERS_INLINE void round_to_bytes(const F32* x, F32 scale, int8_t* out) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int16x4_t low = vqmovn_s32(vcvtnq_s32_f32((x[2 * i] * scale).v));
    const int16x4_t high = vqmovn_s32(vcvtnq_s32_f32((x[2 * i + 1] * scale).v));
    vst1_s8(out + 8 * i, vqmovn_s16(vcombine_s16(low, high)));
  }
}

MLX_RUNNERS_INLINE void code_floats16(uint8x16_t codes, F32* out) {
  const uint16x8_t low = vmovl_u8(vget_low_u8(codes));
  const uint16x8_t high = vmovl_u8(vget_high_u8(codes));
  out[0] = {vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)))};
  out[1] = {vcvtq_f32_u32(vmovl_u16(vget_high_u16(low)))};
  out[2] = {vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)))};
  out[3] = {vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)))};
}
MLX_RUNNERS_INLINE void code_floats(Bytes codes, F32* out) {
  code_floats16(codes.low, out);
  code_floats16(codes.high, out + 4);
}

MLX_RUNNERS_INLINE F32 load_halves(const uint8_t* p) {
  return {vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))};
}
MLX_RUNNERS_INLINE F32 load_bfloats(const uint8_t* p) {
  return {vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16))};
}

MLX_RUNNERS_INLINE uint8x16_t bytes_of(Int a) { return vreinterpretq_u8_s32(a.v); }
MLX_RUNNERS_INLINE Int int_of(uint8x16_t a) { return {vreinterpretq_s32_u8(a)}; }
MLX_RUNNERS_INLINE Int splat(int byte) { return int_of(vdupq_n_u8(static_cast<uint8_t>(byte))); }
MLX_RUNNERS_INLINE Int operator&(Int a, Int b) { return {vandq_s32(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator^(Int a, Int b) { return {veorq_s32(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator-(Int a, Int b) { return {vsubq_s32(a.v, b.v)}; }
template <int kMask>
MLX_RUNNERS_INLINE Int select_bits(Int a, Int b) {
  return int_of(vbslq_u8(vdupq_n_u8(kMask), bytes_of(a), bytes_of(b)));
}
// Of bytes, which differs in bits that are anything.
template <int kBits>
MLX_RUNNERS_INLINE Int shift_words(Int a) {
  if constexpr (kBits < 0) {
    return int_of(vshrq_n_u8(bytes_of(a), -kBits));
  } else {
    return int_of(vshlq_n_u8(bytes_of(a), kBits));
  }
}
template <int kFirst, int>
MLX_RUNNERS_INLINE Int shift_word_halves(Int a) {
  return shift_words<kFirst>(a);
}
template <int kValue>
MLX_RUNNERS_INLINE Int bit_bytes(uint64_t bits) {
  uint8_t two[2];
  memcpy(two, &bits, sizeof(two));
  return int_of(spread16(two, kValue));
}

template <int kStride>
MLX_RUNNERS_INLINE Int load_quads(const uint8_t* p) {
  return load_int(p + kStride - 16);
}
template <int>
MLX_RUNNERS_INLINE void halves_of_four(const uint8_t* const* p, F32& a, F32& b) {
  float four[2][4];
  for (int r = 0; r < 4; ++r) {
    four[0][r] = half_to_float(p[r]);
    four[1][r] = half_to_float(p[r] + 2);
  }
  a = load(four[0]);
  b = load(four[1]);
}
template <int r>
MLX_RUNNERS_INLINE F32 spread_part(F32 a) {
  return {vdupq_laneq_f32(a.v, r)};
}
MLX_RUNNERS_INLINE void store_part_sums(float* p, F32 a) { store(p, a); }
template <int>
MLX_RUNNERS_INLINE Int load_pair(const uint8_t* p) {
  return load_int(p);
}
template <int v>
MLX_RUNNERS_INLINE Int part(Bytes a) {
  return int_of(v == 0 ? a.low : a.high);
}
template <int g0, int, int, int>
MLX_RUNNERS_INLINE F32 spread_quads(const float* p) {
  return set1(p[g0]);
}
template <int p, int kBits>
MLX_RUNNERS_INLINE F32 byte_floats(Int codes) {
  const uint32x4_t bits = vreinterpretq_u32_s32(codes.v);
  if constexpr (p == 3 && kBits == 8) {
    return {vcvtq_f32_u32(vshrq_n_u32(bits, 24))};
  } else {
    return {vcvtq_f32_u32(vandq_u32(bits, vdupq_n_u32(((1U << kBits) - 1) << 8 * p)))};
  }
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA

#include "kernels/cpu/simd/code_weights.h"
