// The byte operations of AVX2, with VNNI's instruction where the level has it. Included by avx2.h
// and avx512.h.
#pragma once

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

struct Bytes {
  __m256i v;
};

MLX_RUNNERS_INLINE Bytes load_bytes(const void* p) {
  return {_mm256_loadu_si256(static_cast<const __m256i*>(p))};
}
MLX_RUNNERS_INLINE Bytes set1_bytes(int x) { return {_mm256_set1_epi8(static_cast<char>(x))}; }
MLX_RUNNERS_INLINE Bytes operator&(Bytes a, Bytes b) { return {_mm256_and_si256(a.v, b.v)}; }
MLX_RUNNERS_INLINE Bytes operator|(Bytes a, Bytes b) { return {_mm256_or_si256(a.v, b.v)}; }
MLX_RUNNERS_INLINE Bytes operator^(Bytes a, Bytes b) { return {_mm256_xor_si256(a.v, b.v)}; }
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_left(Bytes a) {
  return Bytes{_mm256_slli_epi16(a.v, kBits)} & set1_bytes(0xff << kBits);
}
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_right(Bytes a) {
  return Bytes{_mm256_srli_epi16(a.v, kBits)} & set1_bytes(0xff >> kBits);
}
MLX_RUNNERS_INLINE Bytes low_nibbles(Bytes a) { return a & set1_bytes(15); }

MLX_RUNNERS_INLINE Bytes nibbles(const uint8_t* p) {
  const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return low_nibbles({_mm256_set_m128i(_mm_srli_epi16(packed, 4), packed)});
}
MLX_RUNNERS_INLINE Bytes nibble_pairs(const uint8_t* p) {
  const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i high = _mm_srli_epi16(packed, 4);
  return low_nibbles(
      {_mm256_set_m128i(_mm_unpackhi_epi8(packed, high), _mm_unpacklo_epi8(packed, high))});
}
MLX_RUNNERS_INLINE Bytes look_up(const uint8_t* table, Bytes codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return {_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), codes.v)};
}
MLX_RUNNERS_INLINE Bytes spread_bits(const uint8_t* p, int value) {
  int32_t bits;
  memcpy(&bits, p, sizeof(bits));
#if defined(__AVX512VL__) && defined(__AVX512BW__)
  return {_mm256_maskz_set1_epi8(static_cast<__mmask32>(bits), static_cast<char>(value))};
#else
  const __m256i bytes = _mm256_shuffle_epi8(
      _mm256_set1_epi32(bits),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i one = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one), one);
  return Bytes{set} & set1_bytes(value);
#endif
}

MLX_RUNNERS_INLINE float half_to_float(const uint8_t* p) {
  uint16_t bits;
  memcpy(&bits, p, sizeof(bits));
  return _cvtsh_ss(bits);
}

MLX_RUNNERS_INLINE void half_floats(uint64_t four, float* out) {
  _mm_storeu_ps(out, _mm_cvtph_ps(_mm_cvtsi64_si128(static_cast<int64_t>(four))));
}

MLX_RUNNERS_INLINE __m256 scaled(__m256i integers, float factor) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(integers), _mm256_set1_ps(factor));
}
MLX_RUNNERS_INLINE void scale8_unsigned(uint64_t eight, float factor, float* out) {
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<int64_t>(eight));
  _mm256_storeu_ps(out, scaled(_mm256_cvtepu8_epi32(bytes), factor));
}
MLX_RUNNERS_INLINE void scale8_signed(uint64_t eight, float factor, float* out) {
  const __m128i bytes = _mm_cvtsi64_si128(static_cast<int64_t>(eight));
  _mm256_storeu_ps(out, scaled(_mm256_cvtepi8_epi32(bytes), factor));
}

MLX_RUNNERS_INLINE __m256i dot_bytes_narrow(__m256i sum, __m256i codes, __m256i x) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(sum, codes, x);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, codes, x);
#else
  const __m256i pairs = _mm256_maddubs_epi16(codes, x);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}
template <bool kNarrow>
MLX_RUNNERS_INLINE __m256i dot_bytes(__m256i sum, __m256i codes, __m256i x) {
#if !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
  if constexpr (!kNarrow) {
    // Halves of a code, since sums of two whole products don't fit 16 bits.
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i low = _mm256_maddubs_epi16(_mm256_and_si256(codes, mask), x);
    const __m256i high =
        _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(codes, 4), mask), x);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(low, _mm256_set1_epi16(1)));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(high, _mm256_set1_epi16(16)));
  }
#endif
  return dot_bytes_narrow(sum, codes, x);
}

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
