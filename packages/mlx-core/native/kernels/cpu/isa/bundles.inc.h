// Weights as vectors of byte codes for products of one row, a bundle of blocks at a time, in
// whichever order takes the fewest instructions: x is put into that order instead. Part of
// isa/kernels.inc.h.
//
// Bundle<Row> has
//   kBlocks, kVectors             blocks of a bundle, and vectors of codes that they fill
//   kShared                       consecutive vectors whose lanes have the same scales
//   kBits                         of a code; the bits above are anything
//   kOffset                       weight = (code - kOffset) * scale; 0: the format has offsets
//   kPairs                        two vectors: the even codes and the odd ones
//   weight(v, byte)               which of the bundle's weights byte `byte` of vector v is, for the
//                                 first of 16 bytes, whose weights follow each other but for pairs
//   codes<v>(row, b)              vector v of the bundle whose first block is b
//   kTogether                     scales and offsets of four rows' bundles come together, each
//   row's
//                                 filling a quarter of a vector
//   scales_of_four(blocks, scale, offset)   if so
//   scales(row, b, scale, offset) else: of the bundle's groups; offset only where kOffset is 0
#pragma once

#include "kernels/cpu/isa/weight_formats.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

constexpr int kBytesWide = 4 * kWidth;  // of a vector of codes
constexpr int kQuads = kWidth / 4;      // times 16 bytes in it

/// Words of 16 bits at p, p + kStride, ...
template <int kCount, int kStride>
MLX_RUNNERS_INLINE uint64_t gather_words(const uint8_t* p) {
  uint64_t words = 0;
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
    words |= word(p + i * kStride, 0) << 16 * i;
  }
  return words;
}

template <class Row>
struct Bundle;

// ---- blocks of 32 nibbles: low and high ones of a block per 16 bytes ----

template <class Format, bool kMinimum, int kOffsetOfCodes>
struct HalfBlocks {
  static constexpr bool kPairs = false;
  static constexpr bool kTogether = kMinimum;
  static constexpr int kBlocks = kQuads;
  static constexpr int kVectors = 2;
  static constexpr int kShared = 2;
  static constexpr int kOffset = kMinimum ? 0 : kOffsetOfCodes;

  static constexpr int weight(int v, int byte) { return byte / 16 * 32 + v * 16 + byte % 16; }
  template <int v>
  MLX_RUNNERS_INLINE Int nibbles(const uint8_t* block) {
    const Int packed = load_quads<Format::kBytes>(block);
    return v == 0 ? packed : shift_words<-4>(packed);
  }
  MLX_RUNNERS_INLINE void scales_of_four(const uint8_t* const* blocks, F32& scale, F32& offset) {
    halves_of_four<Format::kBytes>(blocks, scale, offset);
  }
  MLX_RUNNERS_INLINE void scales(const BlockRow<Format>& row, int64_t b, float* scale, float*) {
    half_floats(gather_words<kBlocks, Format::kBytes>(row.block(b)), scale);
  }
};

template <bool kMinimum>
struct Bundle<BlockRow<Nibbles<kMinimum>>> : HalfBlocks<Nibbles<kMinimum>, kMinimum, 8> {
  static constexpr int kBits = 4;
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const BlockRow<Nibbles<kMinimum>>& row, int64_t b) {
    return Bundle::template nibbles<v>(row.block(b));
  }
};

template <bool kMinimum>
struct Bundle<BlockRow<FiveBits<kMinimum>>> : HalfBlocks<FiveBits<kMinimum>, kMinimum, 16> {
  static constexpr int kBits = 5;
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const BlockRow<FiveBits<kMinimum>>& row, int64_t b) {
    constexpr int kBytes = FiveBits<kMinimum>::kBytes;
    const uint8_t* block = row.block(b);
    const uint64_t bits = gather_words<Bundle::kBlocks, kBytes>(block + kBytes - 20 + 2 * v);
    return select_bits<16>(bit_bytes<16>(bits), Bundle::template nibbles<v>(block));
  }
};

// ---- bytes, in order ----

struct WholeBytes {
  static constexpr bool kPairs = false;
  static constexpr bool kTogether = false;
  static constexpr int kBlocks = kBytesWide > 32 ? kBytesWide / 32 : 1;
  static constexpr int kVectors = kBlocks * 32 / kBytesWide;
  static constexpr int kShared = kVectors;
  static constexpr int kBits = 8;
  static constexpr int weight(int v, int byte) { return v * kBytesWide + byte; }
};

template <>
struct Bundle<BlockRow<SignedBytes>> : WholeBytes {
  static constexpr int kOffset = 128;
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const BlockRow<SignedBytes>& row, int64_t b) {
    const uint8_t* bytes = row.block(b) + 2 + v * kBytesWide;
    return load_pair<SignedBytes::kBytes>(bytes) ^ splat(128);
  }
  MLX_RUNNERS_INLINE void scales(const BlockRow<SignedBytes>& row, int64_t b, float* scale,
                                 float*) {
    half_floats(gather_words<kBlocks, SignedBytes::kBytes>(row.block(b)), scale);
  }
};

// ---- blocks of 256 ----

template <bool kFifthBit>
struct Bundle<BlockRow<KGroups<kFifthBit>>> {
  using Row = BlockRow<KGroups<kFifthBit>>;
  static constexpr bool kPairs = false;
  static constexpr bool kTogether = false;
  static constexpr int kBlocks = 1;
  static constexpr int kVectors = 256 / kBytesWide;
  static constexpr int kShared = 1;
  static constexpr int kBits = kFifthBit ? 5 : 4;
  static constexpr int kOffset = 0;

  // Vectors 2s and 2s + 1 are the low and the high nibbles of the s-th bytes.
  static constexpr int packed(int v) { return v / 2 * kBytesWide; }
  static constexpr int weight(int v, int byte) {
    const int at = packed(v) + byte;
    return at / 32 * 64 + v % 2 * 32 + at % 32;
  }
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const Row& row, int64_t b) {
    const uint8_t* block = row.block(b);
    const Int pairs = load_int(block + Row::kBytes - 128 + packed(v));
    const Int nibbles = v % 2 == 0 ? pairs : shift_words<-4>(pairs);
    if constexpr (kFifthBit) {
      constexpr int kFirst = weight(v, 0) / 32;  // bit of the first 32 bytes
      const Int bits = load_pair<0>(block + 16 + packed(v) % 32);
      return select_bits<16>(shift_word_halves<4 - kFirst, 2 - kFirst>(bits), nibbles);
    }
    return nibbles;
  }
  MLX_RUNNERS_INLINE void scales(const Row& row, int64_t b, float* scale, float* offset) {
    row.scales(b, scale, offset);
  }
};

template <>
struct Bundle<BlockRow<SixBits>> {
  using Row = BlockRow<SixBits>;
  static constexpr bool kPairs = false;
  static constexpr bool kTogether = false;
  static constexpr int kBlocks = 1;
  static constexpr int kVectors = 256 / kBytesWide;
  static constexpr int kShared = 1;
  static constexpr int kBits = 6;
  static constexpr int kOffset = 32;

  static constexpr int packed(int v) { return v / 2 * kBytesWide; }
  static constexpr int weight(int v, int byte) {
    const int at = packed(v) + byte;
    return at / 64 * 128 + v % 2 * 64 + at % 64;
  }
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const Row& row, int64_t b) {
    const uint8_t* block = row.block(b);
    const Int pairs = load_int(block + packed(v));
    const Int nibbles = v % 2 == 0 ? pairs : shift_words<-4>(pairs);
    constexpr int kFirst = weight(v, 0) % 128 / 32 * 2;  // bits of the first 32 bytes
    const Int bits = load_pair<0>(block + 128 + packed(v) / 64 * 32 + packed(v) % 32);
    return select_bits<48>(shift_word_halves<4 - kFirst, 2 - kFirst>(bits), nibbles);
  }
  MLX_RUNNERS_INLINE void scales(const Row& row, int64_t b, float* scale, float*) {
    float offset[16];
    row.scales(b, scale, offset);
  }
};

// ---- MLX affine ----

template <int kBits_, class Scale>
struct Bundle<AffineRow<kBits_, Scale>> {
  using Row = AffineRow<kBits_, Scale>;
  static constexpr bool kPairs = kBits_ == 4;
  static constexpr bool kTogether = false;
  static constexpr int kBlocks = kBits_ == 4 ? kQuads : WholeBytes::kBlocks;
  static constexpr int kVectors = kBits_ == 4 ? 2 : WholeBytes::kVectors;
  static constexpr int kShared = kVectors;
  static constexpr int kBits = kBits_;
  static constexpr int kOffset = 0;

  static constexpr int weight(int v, int byte) {
    return kBits == 4 ? byte * 2 + v : WholeBytes::weight(v, byte);
  }
  template <int v>
  MLX_RUNNERS_INLINE Int codes(const Row& row, int64_t b) {
    const uint8_t* at = row.base + b * Row::kBytes;
    if constexpr (kBits == 8) {
      return load_int(at + v * kBytesWide);
    }
    const Int pairs = load_int(at);
    return v == 0 ? pairs : shift_words<-4>(pairs);
  }
  MLX_RUNNERS_INLINE void scales(const Row& row, int64_t b, float* scale, float* offset) {
    row.template scales_of<kBlocks>(b, scale, offset);
  }
};

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
