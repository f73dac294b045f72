// AArch64 Advanced SIMD. Included by simd.h only.
#pragma once

#include <arm_neon.h>

namespace mlx_runners::cpu::neon {

constexpr int kWidth = 4;
constexpr int kMr = 6;
constexpr int kNv = 4;
constexpr int kRegisters = 32;

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

}  // namespace mlx_runners::cpu::neon
