// AVX-512 F, BW, DQ and VL, at the level avx512vnni with VNNI. Included by simd.h only.
#pragma once

#include <immintrin.h>

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

constexpr int kWidth = 16;
constexpr int kMr = 14;
constexpr int kNv = 2;
constexpr int kRegisters = 32;
#if defined(__AVX512VNNI__)
constexpr bool kMultipliesBytes = true;
#else
constexpr bool kMultipliesBytes = false;
#endif

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
MLX_RUNNERS_INLINE F32 swap_pairs(F32 a) { return {_mm512_permute_ps(a.v, 0xB1)}; }
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

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA

#include "kernels/cpu/simd/x86_bytes.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

struct Int {
  __m512i v;
};

MLX_RUNNERS_INLINE Int zero_int() { return {_mm512_setzero_si512()}; }
MLX_RUNNERS_INLINE Int load_int(const void* p) { return {_mm512_loadu_si512(p)}; }
MLX_RUNNERS_INLINE Int set1_int(const int8_t* four) {
  int32_t bits;
  memcpy(&bits, four, sizeof(bits));
  return {_mm512_set1_epi32(bits)};
}
MLX_RUNNERS_INLINE Int times_256(Int a) { return {_mm512_slli_epi32(a.v, 8)}; }
MLX_RUNNERS_INLINE void store_rounded(int32_t* p, F32 a) {
  _mm512_storeu_si512(p, _mm512_cvtps_epi32(a.v));
}
MLX_RUNNERS_INLINE F32 to_float(Int a) { return {_mm512_cvtepi32_ps(a.v)}; }
template <bool kNarrow>
MLX_RUNNERS_INLINE Int dot4(Int sum, Int codes, Int x) {
#if defined(__AVX512VNNI__)
  return {_mm512_dpbusd_epi32(sum.v, codes.v, x.v)};
#else
  const __m512i one = _mm512_set1_epi16(1);
  if constexpr (kNarrow) {
    const __m512i pairs = _mm512_maddubs_epi16(codes.v, x.v);
    return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(pairs, one))};
  } else {
    // Halves of a code, since sums of two whole products don't fit 16 bits.
    const __m512i mask = _mm512_set1_epi8(15);
    const __m512i low = _mm512_maddubs_epi16(_mm512_and_si512(codes.v, mask), x.v);
    const __m512i high =
        _mm512_maddubs_epi16(_mm512_and_si512(_mm512_srli_epi16(codes.v, 4), mask), x.v);
    sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(low, one));
    return {_mm512_add_epi32(sum.v, _mm512_madd_epi16(high, _mm512_set1_epi16(16)))};
  }
#endif
}

MLX_RUNNERS_INLINE void round_to_bytes(const F32* x, F32 scale, int8_t* out) {
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512i rounded = _mm512_cvtps_epi32((x[i] * scale).v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * 16), _mm512_cvtsepi32_epi8(rounded));
  }
}

MLX_RUNNERS_INLINE void code_floats(Bytes codes, F32* out) {
  const __m512i low = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(codes.v));
  const __m512i high = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(codes.v, 1));
  out[0] = {_mm512_cvtepi32_ps(low)};
  out[1] = {_mm512_cvtepi32_ps(high)};
}

/// The weights of all 16 nibbles, to be looked up: a permutation takes the low 4 bits of its index.
MLX_RUNNERS_INLINE __m512 nibble_table(F32 scale, F32 offset) {
  const F32 codes = {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  return fma(codes, scale, offset).v;
}
MLX_RUNNERS_INLINE __m512i widen16(const uint8_t* p) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
MLX_RUNNERS_INLINE void nibble_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  const __m512 table = nibble_table(scale, offset);
  const __m512i packed = widen16(p);
  out[0] = {_mm512_permutexvar_ps(packed, table)};
  out[1] = {_mm512_permutexvar_ps(_mm512_srli_epi32(packed, 4), table)};
}
MLX_RUNNERS_INLINE void nibble_pair_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  const __m512 table = nibble_table(scale, offset);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    // A byte to 64 bits, its high nibble to the upper 32 of them.
    const __m512i wide =
        _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i * 8)));
    const __m512i index = _mm512_or_si512(wide, _mm512_slli_epi64(wide, 28));
    out[i] = {_mm512_permutexvar_ps(index, table)};
  }
}
template <bool kHigh>
MLX_RUNNERS_INLINE void nibble_side_weights(const uint8_t* p, F32 scale, F32 offset, F32* out) {
  const __m512 table = nibble_table(scale, offset);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512i packed = widen16(p + i * 16);
    out[i] = {_mm512_permutexvar_ps(kHigh ? _mm512_srli_epi32(packed, 4) : packed, table)};
  }
}

MLX_RUNNERS_INLINE F32 load_halves(const uint8_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
MLX_RUNNERS_INLINE F32 load_bfloats(const uint8_t* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}

MLX_RUNNERS_INLINE Int splat(int byte) { return {_mm512_set1_epi8(static_cast<char>(byte))}; }
MLX_RUNNERS_INLINE Int operator&(Int a, Int b) { return {_mm512_and_si512(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator^(Int a, Int b) { return {_mm512_xor_si512(a.v, b.v)}; }
MLX_RUNNERS_INLINE Int operator-(Int a, Int b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int kMask>
MLX_RUNNERS_INLINE Int select_bits(Int a, Int b) {
  return {_mm512_ternarylogic_epi32(_mm512_set1_epi8(kMask), a.v, b.v, 0xca)};
}
template <int kBits>
MLX_RUNNERS_INLINE Int shift_words(Int a) {
  return {kBits < 0 ? _mm512_srli_epi16(a.v, -kBits) : _mm512_slli_epi16(a.v, kBits)};
}
template <int kFirst, int kSecond>
MLX_RUNNERS_INLINE Int shift_word_halves(Int a) {
  // Both up or both down.
  constexpr bool kUp = kFirst > 0 || kSecond > 0;
  static_assert(kUp ? kFirst >= 0 && kSecond >= 0 : kFirst <= 0 && kSecond <= 0);
  const __m512i counts = _mm512_inserti64x4(_mm512_set1_epi16(kUp ? kFirst : -kFirst),
                                            _mm256_set1_epi16(kUp ? kSecond : -kSecond), 1);
  return {kUp ? _mm512_sllv_epi16(a.v, counts) : _mm512_srlv_epi16(a.v, counts)};
}

/// The numbers of 64 / kUnit units, those of quad i from kStride (i + 1) - 16 bytes on: in the
/// first 64 bytes of four strides or, counted on, in the last.
template <int kStride, int kUnit, class T>
struct QuadOrder {
  T units[64 / kUnit];

  constexpr QuadOrder() : units() {
    constexpr int kOfQuad = 16 / kUnit;
    constexpr int kOfLoad = 64 / kUnit;
    for (int i = 0; i < kOfLoad; ++i) {
      const int at = (kStride * (i / kOfQuad + 1) - 16) / kUnit + i % kOfQuad;
      units[i] = static_cast<T>(at < kOfLoad ? at : at + 2 * kOfLoad - 4 * kStride / kUnit);
    }
  }
};
template <int kStride>
MLX_RUNNERS_INLINE Int load_quads(const uint8_t* p) {
  static_assert(kStride % 2 == 0 && kStride >= 16 && kStride <= 32);
  const __m512i first = _mm512_loadu_si512(p);
  const __m512i last = _mm512_loadu_si512(p + 4 * kStride - 64);
  if constexpr (kStride % 4 == 0) {
    // A permutation of 32 bits is two instructions less than one of 16.
    static constexpr QuadOrder<kStride, 4, uint32_t> kOrder;
    return {_mm512_permutex2var_epi32(first, _mm512_loadu_si512(kOrder.units), last)};
  } else {
    static constexpr QuadOrder<kStride, 2, uint16_t> kOrder;
    return {_mm512_permutex2var_epi16(first, _mm512_loadu_si512(kOrder.units), last)};
  }
}
template <int kStride>
MLX_RUNNERS_INLINE void halves_of_four(const uint8_t* const* p, F32& a, F32& b) {
  // Pairs of halves, four of each p; the lanes of the others are left alone.
  __m512i pairs = _mm512_setzero_si512();
  const auto take = [&]<int r>() MLX_RUNNERS_ALWAYS_INLINE {
    constexpr auto kMask = static_cast<__mmask16>(15 << 4 * r);
    if constexpr (kStride % 4 == 0 && 3 * kStride < 64) {
      constexpr int kStep = kStride / 4;
      const __m512i order = _mm512_set4_epi32(3 * kStep, 2 * kStep, kStep, 0);
      pairs = _mm512_mask_permutexvar_epi32(pairs, kMask, order, _mm512_loadu_si512(p[r]));
    } else {
      const auto pair = [&](int i) {
        int32_t halves;
        memcpy(&halves, p[r] + i * kStride, sizeof(halves));
        return halves;
      };
      const __m128i four = _mm_setr_epi32(pair(0), pair(1), pair(2), pair(3));
      pairs = _mm512_mask_broadcast_i32x4(pairs, kMask, four);
    }
  };
  take.template operator()<0>();
  take.template operator()<1>();
  take.template operator()<2>();
  take.template operator()<3>();
  a = {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs))};
  b = {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(pairs, 16)))};
}
template <int r>
MLX_RUNNERS_INLINE F32 spread_part(F32 a) {
  const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_permutexvar_ps(_mm512_add_epi32(order, _mm512_set1_epi32(4 * r)), a.v)};
}
MLX_RUNNERS_INLINE void store_part_sums(float* p, F32 a) {
  const __m512 pairs = _mm512_add_ps(a.v, _mm512_permute_ps(a.v, 0xb1));
  const __m512 sums = _mm512_add_ps(pairs, _mm512_permute_ps(pairs, 0x4e));
  const __m512i order = _mm512_set4_epi32(12, 8, 4, 0);
  _mm_storeu_ps(p, _mm512_castps512_ps128(_mm512_permutexvar_ps(order, sums)));
}
template <int kStride>
MLX_RUNNERS_INLINE Int load_pair(const uint8_t* p) {
  const auto* second = reinterpret_cast<const __m256i*>(p + kStride);
  if constexpr (kStride == 0) {
    return {_mm512_broadcast_i64x4(_mm256_loadu_si256(second))};
  } else {
    const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_inserti64x4(_mm512_castsi256_si512(first), _mm256_loadu_si256(second), 1)};
  }
}
MLX_RUNNERS_INLINE Int join(Bytes a, Bytes b) {
  return {_mm512_inserti64x4(_mm512_castsi256_si512(a.v), b.v, 1)};
}
template <int kValue>
MLX_RUNNERS_INLINE Int bit_bytes(uint64_t bits) {
  return {_mm512_maskz_set1_epi8(static_cast<__mmask64>(bits), kValue)};
}
template <int g0, int g1, int g2, int g3>
MLX_RUNNERS_INLINE F32 spread_quads(const float* p) {
  constexpr int kFirst = g0 / 4 * 4;
  static_assert(g1 / 4 * 4 == kFirst && g2 / 4 * 4 == kFirst && g3 / 4 * 4 == kFirst);
  const __m512i index =
      _mm512_setr_epi32(g0, g0, g0, g0, g1, g1, g1, g1, g2, g2, g2, g2, g3, g3, g3, g3);
  const __m512i local = _mm512_and_si512(index, _mm512_set1_epi32(3));
  return {_mm512_permutexvar_ps(local, _mm512_castps128_ps512(_mm_loadu_ps(p + kFirst)))};
}
template <int p, int kBits>
MLX_RUNNERS_INLINE F32 byte_floats(Int codes) {
  // Codes that need no shift and are small enough can be looked up, by the low bits of a lane.
  const F32 table = {_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  if constexpr (p == 0 && kBits == 4) {
    return {_mm512_permutexvar_ps(codes.v, table.v)};
  } else if constexpr (p == 0 && kBits == 5) {
    return {_mm512_permutex2var_ps(table.v, codes.v, (table + set1(16.0f)).v)};
  } else if constexpr (p == 3 && kBits == 8) {
    return {_mm512_cvtepi32_ps(_mm512_srli_epi32(codes.v, 24))};
  } else {
    const __m512i mask = _mm512_set1_epi32(((1 << kBits) - 1) << 8 * p);
    return {_mm512_cvtepi32_ps(_mm512_and_si512(codes.v, mask))};
  }
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
