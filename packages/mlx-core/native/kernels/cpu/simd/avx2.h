// AVX2 and FMA. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace mlx_runners::cpu::avx2 {

constexpr int kWidth = 8;
constexpr int kMr = 6;
constexpr int kNv = 2;
constexpr int kRegisters = 16;

struct F32 {
  __m256 v;
};
struct Mask {
  __m256 v;
};

MLX_RUNNERS_INLINE F32 zero() { return {_mm256_setzero_ps()}; }
MLX_RUNNERS_INLINE F32 set1(float x) { return {_mm256_set1_ps(x)}; }
MLX_RUNNERS_INLINE F32 load(const float* p) { return {_mm256_loadu_ps(p)}; }
MLX_RUNNERS_INLINE void store(float* p, F32 a) { _mm256_storeu_ps(p, a.v); }
MLX_RUNNERS_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MLX_RUNNERS_INLINE F32 load_n(const float* p, int n, float fill = 0.0f) {
  const __m256i mask = first_lanes(n);
  return {_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask),
                           _mm256_castsi256_ps(mask))};
}
MLX_RUNNERS_INLINE void store_n(float* p, F32 a, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), a.v);
}

MLX_RUNNERS_INLINE F32 operator+(F32 a, F32 b) { return {_mm256_add_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator-(F32 a, F32 b) { return {_mm256_sub_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator*(F32 a, F32 b) { return {_mm256_mul_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 operator/(F32 a, F32 b) { return {_mm256_div_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 fma(F32 a, F32 b, F32 c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
MLX_RUNNERS_INLINE F32 fnma(F32 a, F32 b, F32 c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
MLX_RUNNERS_INLINE F32 max(F32 a, F32 b) { return {_mm256_max_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE F32 min(F32 a, F32 b) { return {_mm256_min_ps(a.v, b.v)}; }
MLX_RUNNERS_INLINE Mask gt(F32 a, F32 b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
MLX_RUNNERS_INLINE F32 select(Mask m, F32 a, F32 b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
MLX_RUNNERS_INLINE F32 mul_pow2(F32 x, F32 t) {
  const __m256i n = _mm256_slli_epi32(_mm256_castps_si256(t.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.v), n))};
}
MLX_RUNNERS_INLINE float hsum(F32 a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
MLX_RUNNERS_INLINE void store_hsum4(float* p, F32 a, F32 b, F32 c, F32 d) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a.v, b.v), _mm256_hadd_ps(c.v, d.v));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1)));
}
MLX_RUNNERS_INLINE float hmax(F32 a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}
MLX_RUNNERS_INLINE float first(F32 a) { return _mm256_cvtss_f32(a.v); }

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

}  // namespace mlx_runners::cpu::avx2
