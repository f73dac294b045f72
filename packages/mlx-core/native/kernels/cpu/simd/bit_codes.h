// Codes of 2 to 7 bits that follow one another bit by bit, lowest first. Included by simd.h only,
// after the level's own header.
#pragma once

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {

/// Where the eight codes from code 8 i on are read: 64 bits at a byte of the 32 codes, no byte
/// beyond the last among them.
template <int kBits>
MLX_RUNNERS_INLINE constexpr int word_of_codes(int i) {
  const int last = 4 * kBits - 8;
  return i * kBits < last ? i * kBits : last;
}

#if defined(__AVX2__)
/// The 16 codes of each half of a register as 16 bits: which two bytes of the half hold the even or
/// the odd ones, and the factors that bring them to the upper byte.
template <int kBits, int kOdd>
struct BitPairs {
  // A half is loaded with 8 or 16 bytes, none beyond the last of the 32 codes.
  static constexpr int kLoaded = kBits < 4 ? 8 : 16;
  static constexpr int kSecond = 4 * kBits - kLoaded;
  uint8_t bytes[32];
  uint16_t factors[16];

  constexpr BitPairs() : bytes(), factors() {
    for (int i = 0; i < 16; ++i) {
      const int start = i < 8 ? 0 : 8 * (2 * kBits - kSecond);
      const int bit = start + (i % 8 * 2 + kOdd) * kBits;
      bytes[2 * i] = static_cast<uint8_t>(bit / 8);
      // Where a code ends with what is loaded, a byte that is masked out.
      bytes[2 * i + 1] = static_cast<uint8_t>((bit / 8 + 1) % 16);
      factors[i] = static_cast<uint16_t>(1 << (8 - bit % 8));
    }
  }
};

template <int kBits, int kOdd>
MLX_RUNNERS_INLINE __m256i bit_pairs(__m256i halves) {
  static constexpr BitPairs<kBits, kOdd> kPairs;
  const auto constant = [](const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  };
  return _mm256_mullo_epi16(_mm256_shuffle_epi8(halves, constant(kPairs.bytes)),
                            constant(kPairs.factors));
}

template <int kBits>
MLX_RUNNERS_INLINE Bytes bit_codes(const uint8_t* p) {
  using Pairs = BitPairs<kBits, 0>;
  const auto half = [](const uint8_t* from) {
    const auto* bytes = reinterpret_cast<const __m128i*>(from);
    return Pairs::kLoaded == 8 ? _mm_loadl_epi64(bytes) : _mm_loadu_si128(bytes);
  };
  const __m256i halves = _mm256_set_m128i(half(p + Pairs::kSecond), half(p));
  const __m256i even = _mm256_srli_epi16(bit_pairs<kBits, 0>(halves), 8);
  const __m256i odd = _mm256_and_si256(bit_pairs<kBits, 1>(halves), _mm256_set1_epi16(-256));
  return Bytes{_mm256_or_si256(even, odd)} & set1_bytes((1 << kBits) - 1);
}
#else
typedef uint64_t Words __attribute__((vector_size(32)));

/// 32 codes: each word spreads eight of them over its bytes, by halves, quarters and eighths.
template <int kBits>
MLX_RUNNERS_INLINE Bytes bit_codes(const uint8_t* p) {
  constexpr uint64_t kFours = (uint64_t{1} << 4 * kBits) - 1;
  constexpr uint64_t kPairs = ((uint64_t{1} << 2 * kBits) - 1) * 0x0000000100000001;
  constexpr uint64_t kSingles = ((uint64_t{1} << kBits) - 1) * 0x0001000100010001;
  uint64_t loaded[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const int at = word_of_codes<kBits>(i);
    memcpy(loaded + i, p + at, sizeof(uint64_t));
    loaded[i] >>= 8 * (i * kBits - at);
  }
  Words words = {loaded[0], loaded[1], loaded[2], loaded[3]};
  words = (words & kFours) | (words >> 4 * kBits & kFours) << 32;
  words = (words & kPairs) | (words >> 2 * kBits & kPairs) << 16;
  words = (words & kSingles) | (words >> kBits & kSingles) << 8;
  return load_bytes(&words);
}
#endif

#if defined(__AVX2__)
/// For each lane of vector v of the codes as floats: the two bytes of its word that hold the code,
/// and how far it has to be shifted down there.
template <int kBits, int v>
struct BitPlaces {
  uint8_t bytes[kWidth * 4];
  uint32_t shifts[kWidth];

  constexpr BitPlaces() : bytes(), shifts() {
    for (int lane = 0; lane < kWidth; ++lane) {
      const int code = v * kWidth + lane;
      const int bit = code * kBits - 8 * word_of_codes<kBits>(code / 8);
      bytes[4 * lane] = static_cast<uint8_t>(bit / 8);
      // Where the code ends with the word this is a byte of its copy, whose bits are masked out.
      bytes[4 * lane + 1] = static_cast<uint8_t>(bit / 8 + 1);
      bytes[4 * lane + 2] = 0x80;  // zero
      bytes[4 * lane + 3] = 0x80;
      shifts[lane] = static_cast<uint32_t>(bit % 8);
    }
  }
};

template <int kBits, int v>
MLX_RUNNERS_INLINE F32 bit_floats_at(const uint8_t* p) {
  static constexpr BitPlaces<kBits, v> kPlaces;
  const auto word = [&](int i) {
    int64_t eight;
    memcpy(&eight, p + word_of_codes<kBits>(i), sizeof(eight));
    return eight;
  };
#if defined(__AVX512F__)
  const __m512i words =
      _mm512_mask_set1_epi64(_mm512_set1_epi64(word(2 * v)), 0xf0, word(2 * v + 1));
  const __m512i bytes = _mm512_shuffle_epi8(words, _mm512_loadu_si512(kPlaces.bytes));
  const __m512i codes = _mm512_srlv_epi32(bytes, _mm512_loadu_si512(kPlaces.shifts));
  return {_mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32((1 << kBits) - 1)))};
#else
  const auto constant = [](const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  };
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi64x(word(v)), constant(kPlaces.bytes));
  const __m256i codes = _mm256_srlv_epi32(bytes, constant(kPlaces.shifts));
  return {_mm256_cvtepi32_ps(_mm256_and_si256(codes, _mm256_set1_epi32((1 << kBits) - 1)))};
#endif
}

/// 32 codes as floats.
template <int kBits>
MLX_RUNNERS_INLINE void bit_floats(const uint8_t* p, F32* out) {
  out[0] = bit_floats_at<kBits, 0>(p);
  out[1] = bit_floats_at<kBits, 1>(p);
  if constexpr (kWidth == 8) {
    out[2] = bit_floats_at<kBits, 2>(p);
    out[3] = bit_floats_at<kBits, 3>(p);
  }
}
#else
template <int kBits>
MLX_RUNNERS_INLINE void bit_floats(const uint8_t* p, F32* out) {
  code_floats(bit_codes<kBits>(p), out);
}
#endif

}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
