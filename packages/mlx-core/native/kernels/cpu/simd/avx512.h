// AVX-512 F, BW, DQ and VL. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace mlx_runners::cpu::avx512 {

constexpr int kWidth = 16;
constexpr int kMr = 14;
constexpr int kNv = 2;
constexpr int kRegisters = 32;

struct F32 {
  __m512 v;
};
using Mask = __mmask16;

MLX_RUNNERS_INLINE F32 zero() { return {_mm512_setzero_ps()}; }
MLX_RUNNERS_INLINE F32 set1(float x) { return {_mm512_set1_ps(x)}; }
MLX_RUNNERS_INLINE F32 load(const float* p) { return {_mm512_loadu_ps(p)}; }
MLX_RUNNERS_INLINE void store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
MLX_RUNNERS_INLINE Mask first_lanes(int n) { return static_cast<Mask>((1U << n) - 1U); }
MLX_RUNNERS_INLINE F32 load_n(const float* p, int n, float fill = 0.0f) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(n), p)};
}
MLX_RUNNERS_INLINE void store_n(float* p, F32 a, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}

MLX_RUNNERS_INLINE F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
MLX_RUNNERS_INLINE F32 fnma(F32 a, F32 b, F32 c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
MLX_RUNNERS_INLINE F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE Mask gt(F32 a, F32 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ); }
MLX_RUNNERS_INLINE F32 select(Mask m, F32 a, F32 b) { return {_mm512_mask_blend_ps(m, b.v, a.v)}; }
MLX_RUNNERS_INLINE F32 mul_pow2(F32 x, F32 t) {
  const __m512i n = _mm512_slli_epi32(_mm512_castps_si512(t.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.v), n))};
}
MLX_RUNNERS_INLINE float hsum(F32 a) { return _mm512_reduce_add_ps(a.v); }
MLX_RUNNERS_INLINE __m256 fold(F32 a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
MLX_RUNNERS_INLINE void store_hsum4(float* p, F32 a, F32 b, F32 c, F32 d) {
  const __m256 ab = _mm256_hadd_ps(fold(a), fold(b));
  const __m256 cd = _mm256_hadd_ps(fold(c), fold(d));
  const __m256 sums = _mm256_hadd_ps(ab, cd);
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}
MLX_RUNNERS_INLINE float hmax(F32 a) { return _mm512_reduce_max_ps(a.v); }
MLX_RUNNERS_INLINE float first(F32 a) { return _mm512_cvtss_f32(a.v); }

/// dst[k * dst_step + i] = src[i * src_step + k] for i, k < 4.
MLX_RUNNERS_INLINE void transpose4(const float* src, int64_t src_step, float* dst,
                                   int64_t dst_step) {
  __m128 a = _mm_loadu_ps(src);
  __m128 b = _mm_loadu_ps(src + src_step);
  __m128 c = _mm_loadu_ps(src + 2 * src_step);
  __m128 d = _mm_loadu_ps(src + 3 * src_step);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(dst, a);
  _mm_storeu_ps(dst + dst_step, b);
  _mm_storeu_ps(dst + 2 * dst_step, c);
  _mm_storeu_ps(dst + 3 * dst_step, d);
}

}  // namespace mlx_runners::cpu::avx512
