// AVX2, FMA and F16C, at the level avx2vnni with AVX-VNNI. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

constexpr int kWidth = 8;
constexpr int kMr = 6;
constexpr int kNv = 2;
constexpr int kRegisters = 16;
#if defined(__AVXVNNI__)
constexpr bool kMultipliesBytes = true;
#else
constexpr bool kMultipliesBytes = false;
#endif

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
MLX_RUNNERS_INLINE F32 swap_pairs(F32 a) { return {_mm256_permute_ps(a.v, 0xB1)}; }
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

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA

#include "kernels/cpu/simd/x86_bytes.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

struct Int {
  __m256i v;
};

MLX_RUNNERS_INLINE Int zero_int() { return {_mm256_setzero_si256()}; }
MLX_RUNNERS_INLINE Int load_int(const void* p) {
  return {_mm256_loadu_si256(static_cast<const __m256i*>(p))};
}
MLX_RUNNERS_INLINE Int set1_int(const int8_t* four) {
  int32_t bits;
  memcpy(&bits, four, sizeof(bits));
  return {_mm256_set1_epi32(bits)};
}
MLX_RUNNERS_INLINE Int times_256(Int a) { return {_mm256_slli_epi32(a.v, 8)}; }
MLX_RUNNERS_INLINE void store_rounded(int32_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_cvtps_epi32(a.v));
}
MLX_RUNNERS_INLINE F32 to_float(Int a) { return {_mm256_cvtepi32_ps(a.v)}; }
template <bool kNarrow>
MLX_RUNNERS_INLINE Int dot4(Int sum, Int codes, Int x) {
  return {dot_bytes<kNarrow>(sum.v, codes.v, x.v)};
}

MLX_RUNNERS_INLINE void round_to_bytes(const F32* x, F32 scale, int8_t* out) {
  __m256i part[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    part[i] = _mm256_cvtps_epi32((x[i] * scale).v);
  }
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]),
                                            _mm256_packs_epi32(part[2], part[3]));
  // Packing works within halves of a register.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(packed, order));
}

MLX_RUNNERS_INLINE void code_floats(Bytes codes, F32* out) {
  const __m128i low = _mm256_castsi256_si128(codes.v);
  const __m128i high = _mm256_extracti128_si256(codes.v, 1);
  out[0] = {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(low))};
  out[1] = {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(low, 8)))};
  out[2] = {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(high))};
  out[3] = {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(high, 8)))};
}

MLX_RUNNERS_INLINE F32 load_halves(const uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
MLX_RUNNERS_INLINE F32 load_bfloats(const uint8_t* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}

MLX_RUNNERS_INLINE Int splat(int byte) { return {_mm256_set1_epi8(static_cast<char>(byte))}; }
MLX_RUNNERS_INLINE Int operator&(Int a, Int b) { return {_mm256_and_si256(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator^(Int a, Int b) { return {_mm256_xor_si256(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator-(Int a, Int b) { return {_mm256_sub_epi32(a.v, b.v)}; }
template <int kMask>
MLX_RUNNERS_INLINE Int select_bits(Int a, Int b) {
  const __m256i mask = _mm256_set1_epi8(kMask);
  return {_mm256_or_si256(_mm256_and_si256(mask, a.v), _mm256_andnot_si256(mask, b.v))};
}
template <int kBits>
MLX_RUNNERS_INLINE Int shift_words(Int a) {
  return {kBits < 0 ? _mm256_srli_epi16(a.v, -kBits) : _mm256_slli_epi16(a.v, kBits)};
}
template <int kFirst, int>
MLX_RUNNERS_INLINE Int shift_word_halves(Int a) {
  return shift_words<kFirst>(a);
}

template <int kStride>
MLX_RUNNERS_INLINE Int load_quads(const uint8_t* p) {
  const auto quad = [&](int i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + (i + 1) * kStride - 16));
  };
  return {_mm256_set_m128i(quad(1), quad(0))};
}
template <int kStride>
MLX_RUNNERS_INLINE void halves_of_four(const uint8_t* const* p, F32& a, F32& b) {
  const auto pair = [&](int i) {
    int32_t halves;
    memcpy(&halves, p[i / 2] + i % 2 * kStride, sizeof(halves));
    return halves;
  };
  const __m128i low = _mm_setr_epi32(pair(0), pair(1), pair(2), pair(3));
  const __m128i high = _mm_setr_epi32(pair(4), pair(5), pair(6), pair(7));
  const __m128i mask = _mm_set1_epi32(0xffff);
  a = {_mm256_cvtph_ps(_mm_packus_epi32(_mm_and_si128(low, mask), _mm_and_si128(high, mask)))};
  b = {_mm256_cvtph_ps(_mm_packus_epi32(_mm_srli_epi32(low, 16), _mm_srli_epi32(high, 16)))};
}
template <int r>
MLX_RUNNERS_INLINE F32 spread_part(F32 a) {
  constexpr int i = 2 * r;
  return {_mm256_permutevar8x32_ps(a.v, _mm256_setr_epi32(i, i, i, i, i + 1, i + 1, i + 1, i + 1))};
}
MLX_RUNNERS_INLINE void store_part_sums(float* p, F32 a) {
  _mm_storeu_ps(p, _mm_hadd_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1)));
}
template <int>
MLX_RUNNERS_INLINE Int load_pair(const uint8_t* p) {
  return load_int(p);
}
template <int>
MLX_RUNNERS_INLINE Int part(Bytes a) {
  return {a.v};
}
template <int kValue>
MLX_RUNNERS_INLINE Int bit_bytes(uint64_t bits) {
  uint8_t four[4];
  memcpy(four, &bits, sizeof(four));
  return {spread_bits(four, kValue).v};
}
template <int g0, int g1, int, int>
MLX_RUNNERS_INLINE F32 spread_quads(const float* p) {
  return {_mm256_set_m128(_mm_set1_ps(p[g1]), _mm_set1_ps(p[g0]))};
}
template <int p, int kBits>
MLX_RUNNERS_INLINE F32 byte_floats(Int codes) {
  if constexpr (p == 3 && kBits == 8) {
    return {_mm256_cvtepi32_ps(_mm256_srli_epi32(codes.v, 24))};
  } else {
    const __m256i mask = _mm256_set1_epi32(((1 << kBits) - 1) << 8 * p);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(codes.v, mask))};
  }
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA

#include "kernels/cpu/simd/code_weights.h"
