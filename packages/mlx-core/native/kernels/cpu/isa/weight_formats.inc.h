// How each format of weights is unpacked: rows that give blocks of 32 codes with their scales.
// Part of isa/kernels.inc.h. The GGUF layouts are those of ggml (ggml-common.h, ggml-quants.c).
//
// A row type has kWeights and kBytes per block, from `base` on, kGroup weights to a scale, kGroups
// in a block, kNarrow (codes below 64), and for 32 weights j of block b
//   scales(b, scale, offset)      of the block's groups: weight = code * scale + offset
//   codes(b, j)                   unsigned bytes
//   weights(b, j, scale, offset, out)
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// The i-th 16 bits from p on.
MLX_RUNNERS_INLINE uint64_t word(const uint8_t* p, int64_t i) {
  uint16_t bits;
  memcpy(&bits, p + 2 * i, sizeof(bits));
  return bits;
}

/// Four floats. Scales are written and read so many at a time: what is stored in parts and loaded
/// whole waits for the parts to reach the cache.
typedef float Four __attribute__((vector_size(16)));
MLX_RUNNERS_INLINE Four load_four(const float* p) {
  Four a;
  memcpy(&a, p, sizeof(a));
  return a;
}
MLX_RUNNERS_INLINE void store_four(float* p, Four a) { memcpy(p, &a, sizeof(a)); }

constexpr int kStep = 32;                 // weights that are unpacked at a time
constexpr int kVectors = kStep / kWidth;  // vectors of floats that they fill

/// code * scale + offset, with a scale per 16 weights or one for all 32.
template <int kScales>
MLX_RUNNERS_INLINE void scaled_codes(Bytes codes, const float* scale, const float* offset,
                                     F32* out) {
  code_floats(codes, out);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const int i = v * kScales / kVectors;
    out[v] = fma(out[v], set1(scale[i]), set1(offset[i]));
  }
}

// ---- GGUF: 32 weights to a block, scale first ----

/// Q4_0: code - 8; Q4_1: with a minimum.
template <bool kMinimum>
struct Nibbles {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = kMinimum ? 20 : 18;
  static constexpr int kGroup = 32;
  static constexpr bool kNarrow = true;

  MLX_RUNNERS_INLINE void scales(const uint8_t* block, float* scale, float* offset) {
    scale[0] = half_to_float(block);
    offset[0] = kMinimum ? half_to_float(block + 2) : -8.0f * scale[0];
  }
  template <int j>
  MLX_RUNNERS_INLINE Bytes codes(const uint8_t* block) {
    return nibbles(block + kBytes - 16);
  }
  template <int j>
  MLX_RUNNERS_INLINE void weights(const uint8_t* block, const float* scale, const float* offset,
                                  F32* out) {
    nibble_weights(block + kBytes - 16, set1(scale[0]), set1(offset[0]), out);
  }
};

/// Q5_0: code - 16; Q5_1: with a minimum. The fifth bits come before the nibbles.
template <bool kMinimum>
struct FiveBits {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = kMinimum ? 24 : 22;
  static constexpr int kGroup = 32;
  static constexpr bool kNarrow = true;

  MLX_RUNNERS_INLINE void scales(const uint8_t* block, float* scale, float* offset) {
    scale[0] = half_to_float(block);
    offset[0] = kMinimum ? half_to_float(block + 2) : -16.0f * scale[0];
  }
  template <int j>
  MLX_RUNNERS_INLINE Bytes codes(const uint8_t* block) {
    return nibbles(block + kBytes - 16) | spread_bits(block + kBytes - 20, 16);
  }
  template <int j>
  MLX_RUNNERS_INLINE void weights(const uint8_t* block, const float* scale, const float* offset,
                                  F32* out) {
    scaled_codes<1>(codes<j>(block), scale, offset, out);
  }
};

/// Q8_0: signed bytes, here 128 more.
struct SignedBytes {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 34;
  static constexpr int kGroup = 32;
  static constexpr bool kNarrow = false;

  MLX_RUNNERS_INLINE void scales(const uint8_t* block, float* scale, float* offset) {
    scale[0] = half_to_float(block);
    offset[0] = -128.0f * scale[0];
  }
  template <int j>
  MLX_RUNNERS_INLINE Bytes codes(const uint8_t* block) {
    return load_bytes(block + 2) ^ set1_bytes(128);
  }
  template <int j>
  MLX_RUNNERS_INLINE void weights(const uint8_t* block, const float* scale, const float* offset,
                                  F32* out) {
    scaled_codes<1>(codes<j>(block), scale, offset, out);
  }
};

// ---- GGUF: 256 weights to a block ----

/// Q4_K and Q5_K: 8 groups with 6-bit scales and minima; nibbles of groups 2i and 2i + 1 share
/// bytes, and bit j of byte k is the fifth bit of weight k of group j.
template <bool kFifthBit>
struct KGroups {
  static constexpr int kWeights = 256;
  static constexpr int kBytes = kFifthBit ? 176 : 144;
  static constexpr int kGroup = 32;
  static constexpr bool kNarrow = true;

  MLX_RUNNERS_INLINE void scales(const uint8_t* block, float* scale, float* offset) {
    // Bytes 0-3 and 4-7 hold six bits of four scales and of four minima; the other four of each
    // have their low nibbles in bytes 8-11 and their high bits above those six.
    uint32_t scales;
    uint32_t minima;
    uint32_t low;
    memcpy(&scales, block + 4, sizeof(scales));
    memcpy(&minima, block + 8, sizeof(minima));
    memcpy(&low, block + 12, sizeof(low));
    const uint64_t upper_scales = (low & 0x0f0f0f0fU) | (scales >> 2 & 0x30303030U);
    const uint64_t upper_minima = (low >> 4 & 0x0f0f0f0fU) | (minima >> 2 & 0x30303030U);
    scale8_unsigned((scales & 0x3f3f3f3fU) | upper_scales << 32, half_to_float(block), scale);
    scale8_unsigned((minima & 0x3f3f3f3fU) | upper_minima << 32, -half_to_float(block + 2), offset);
  }
  template <int j>
  MLX_RUNNERS_INLINE Bytes codes(const uint8_t* block) {
    const Bytes packed = load_bytes(block + kBytes - 128 + j / 2 * 32);
    const Bytes low = low_nibbles(shift_right<j % 2 * 4>(packed));
    if constexpr (kFifthBit) {
      const Bytes bits = load_bytes(block + 16);
      if constexpr (j < 4) {
        return low | (shift_left<4 - j>(bits) & set1_bytes(16));
      } else {
        return low | (shift_right<j - 4>(bits) & set1_bytes(16));
      }
    }
    return low;
  }
  template <int j>
  MLX_RUNNERS_INLINE void weights(const uint8_t* block, const float* scale, const float* offset,
                                  F32* out) {
    if constexpr (kFifthBit) {
      scaled_codes<1>(codes<j>(block), scale + j, offset + j, out);
    } else {
      nibble_side_weights<j % 2 == 1>(block + 16 + j / 2 * 32, set1(scale[j]), set1(offset[j]),
                                      out);
    }
  }
};

/// Q6_K: 16 groups with signed 8-bit scales, code - 32. Per half of the block 64 bytes of nibbles
/// and 32 of upper bits: its weights 32i.. take their nibbles from bytes 32 (i % 2).., low ones for
/// i < 2, and their upper bits from bits 2i.
struct SixBits {
  static constexpr int kWeights = 256;
  static constexpr int kBytes = 210;
  static constexpr int kGroup = 16;
  static constexpr bool kNarrow = true;

  MLX_RUNNERS_INLINE void scales(const uint8_t* block, float* scale, float* offset) {
    const float factor = half_to_float(block + 208);
    uint64_t low;
    uint64_t high;
    memcpy(&low, block + 192, sizeof(low));
    memcpy(&high, block + 200, sizeof(high));
    scale8_signed(low, factor, scale);
    scale8_signed(high, factor, scale + 8);
    scale8_signed(low, -32.0f * factor, offset);
    scale8_signed(high, -32.0f * factor, offset + 8);
  }
  template <int j>
  MLX_RUNNERS_INLINE Bytes codes(const uint8_t* block) {
    constexpr int half = j / 4;
    constexpr int i = j % 4;
    const Bytes packed = load_bytes(block + 64 * half + i % 2 * 32);
    const Bytes bits = load_bytes(block + 128 + 32 * half);
    const Bytes low = low_nibbles(shift_right<i / 2 * 4>(packed));
    if constexpr (i < 2) {
      return low | (shift_left<4 - 2 * i>(bits) & set1_bytes(48));
    } else {
      return low | (shift_right<2 * i - 4>(bits) & set1_bytes(48));
    }
  }
  template <int j>
  MLX_RUNNERS_INLINE void weights(const uint8_t* block, const float* scale, const float* offset,
                                  F32* out) {
    scaled_codes<2>(codes<j>(block), scale + 2 * j, offset + 2 * j, out);
  }
};

/// A row of blocks with nothing beside them.
template <class Format>
struct BlockRow {
  static constexpr int kWeights = Format::kWeights;
  static constexpr int kBytes = Format::kBytes;
  static constexpr int kGroup = Format::kGroup;
  static constexpr int kGroups = kWeights / kGroup;
  static constexpr bool kNarrow = Format::kNarrow;

  const uint8_t* base;

  MLX_RUNNERS_INLINE BlockRow at(const WeightRows& w, int64_t row) {
    return {w.codes + row * w.row_bytes};
  }
  inline MLX_RUNNERS_ALWAYS_INLINE const uint8_t* block(int64_t b) const {
    return base + b * kBytes;
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void scales(int64_t b, float* scale, float* offset) const {
    Format::scales(block(b), scale, offset);
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE Bytes codes(int64_t b) const {
    return Format::template codes<j>(block(b));
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE void weights(int64_t b, const float* scale, const float* offset,
                                                F32* out) const {
    Format::template weights<j>(block(b), scale, offset, out);
  }
};

// ---- MLX affine: scales and biases in arrays of their own ----

struct FloatScale {
  static constexpr int kBytes = 4;
  MLX_RUNNERS_INLINE float read(const uint8_t* p) {
    float x;
    memcpy(&x, p, sizeof(x));
    return x;
  }
};
struct HalfScale {
  static constexpr int kBytes = 2;
  MLX_RUNNERS_INLINE float read(const uint8_t* p) { return half_to_float(p); }
  MLX_RUNNERS_INLINE void read4(uint64_t words, float* out) { half_floats(words, out); }
};
struct BfloatScale {
  static constexpr int kBytes = 2;
  MLX_RUNNERS_INLINE float read(const uint8_t* p) {
    uint16_t upper;
    memcpy(&upper, p, sizeof(upper));
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
  MLX_RUNNERS_INLINE void read4(uint64_t words, float* out) {
    // The even and the odd words, each in the upper half of 32 bits.
    const uint64_t even = (words & 0x0000ffff0000ffffU) << 16;
    const uint64_t odd = words & 0xffff0000ffff0000U;
    const uint64_t pairs[2] = {(even & 0xffffffffU) | odd << 32,
                               even >> 32 | (odd & 0xffffffff00000000U)};
    memcpy(out, pairs, sizeof(pairs));
  }
};

template <int kBits, class Scale>
struct AffineRow {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 4 * kBits;
  static constexpr int kGroup = 32;
  static constexpr int kGroups = 1;
  static constexpr bool kNarrow = kBits == 4;

  const uint8_t* base;
  const uint8_t* scale_row;
  const uint8_t* bias_row;
  int shift;

  MLX_RUNNERS_INLINE AffineRow at(const WeightRows& w, int64_t row) {
    const int64_t start = row * w.scale_step * Scale::kBytes;
    return {w.codes + row * w.row_bytes, w.scales + start, w.biases + start, w.group_shift};
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void scales(int64_t b, float* scale, float* offset) const {
    const int64_t group = (b >> shift) * Scale::kBytes;
    scale[0] = Scale::read(scale_row + group);
    offset[0] = Scale::read(bias_row + group);
  }
  /// Of kCount <= 4 blocks from b on; room for 4.
  template <int kCount>
  inline MLX_RUNNERS_ALWAYS_INLINE void scales_of(int64_t b, float* scale, float* offset) const {
    if constexpr (Scale::kBytes == 2) {
      uint64_t scale_words = 0;
      uint64_t offset_words = 0;
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        const int64_t group = (b + i) >> shift;
        scale_words |= word(scale_row, group) << 16 * i;
        offset_words |= word(bias_row, group) << 16 * i;
      }
      Scale::read4(scale_words, scale);
      Scale::read4(offset_words, offset);
    } else {
      Four scales = {};
      Four offsets = {};
#pragma GCC unroll 4
      for (int i = 0; i < kCount; ++i) {
        const int64_t group = (b + i) >> shift;
        scales[i] = Scale::read(scale_row + group * Scale::kBytes);
        offsets[i] = Scale::read(bias_row + group * Scale::kBytes);
      }
      store_four(scale, scales);
      store_four(offset, offsets);
    }
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE Bytes codes(int64_t b) const {
    const uint8_t* block = base + b * kBytes;
    return kBits == 4 ? nibble_pairs(block) : load_bytes(block);
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE void weights(int64_t b, const float* scale, const float* offset,
                                                F32* out) const {
    const uint8_t* block = base + b * kBytes;
    if constexpr (kBits == 4) {
      nibble_pair_weights(block, set1(scale[0]), set1(offset[0]), out);
    } else {
      scaled_codes<1>(load_bytes(block), scale, offset, out);
    }
  }
};

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
