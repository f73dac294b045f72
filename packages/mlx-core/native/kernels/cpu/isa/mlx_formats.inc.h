// The rest of MLX's formats: affine codes of other widths than 4 and 8 bits, and the small floats
// of OCP's MX and NVIDIA's formats. Row types as those of isa/weight_formats.inc.h, and their
// bundles; dequantised weights are MLX's to the bit. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/bundles.inc.h"
#include "kernels/cpu/isa/weights.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// MLX affine of 2, 3, 5 or 6 bits.
template <int kBits, class Scale>
struct BitsRow : AffineRow<kBits, Scale> {
  static constexpr bool kNarrow = true;

  MLX_RUNNERS_INLINE BitsRow at(const WeightRows& w, int64_t row) {
    return {AffineRow<kBits, Scale>::at(w, row)};
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE Bytes codes(int64_t b) const {
    return bit_codes<kBits>(this->base + b * BitsRow::kBytes);
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE void weights(int64_t b, const float* scale, const float* offset,
                                                F32* out) const {
    bit_floats<kBits>(this->base + b * BitsRow::kBytes, out);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      out[v] = out[v] * set1(scale[0]) + set1(offset[0]);  // rounded twice, as by MLX
    }
  }
};

/// A bundle of codes that a row unpacks in their order.
template <class Row>
struct UnpackedCodes : WholeBytes {
  static constexpr int kShared = Row::kGroups == 1 ? kVectors : 1;

  template <int v>
  MLX_RUNNERS_INLINE Int codes(const Row& row, int64_t b) {
    if constexpr (kBlocks == 2) {
      return join(row.template codes<0>(b), row.template codes<0>(b + 1));
    } else {
      return part<v>(row.template codes<0>(b));
    }
  }
};

template <int kBits_, class Scale>
struct Bundle<BitsRow<kBits_, Scale>> : UnpackedCodes<BitsRow<kBits_, Scale>> {
  static constexpr int kBits = kBits_;
  static constexpr int kOffset = 0;
  MLX_RUNNERS_INLINE void scales(const BitsRow<kBits_, Scale>& row, int64_t b, float* scale,
                                 float* offset) {
    row.template scales_of<Bundle::kBlocks>(b, scale, offset);
  }
};

/// Floats of halves given as integers.
MLX_RUNNERS_INLINE void floats_of_halves(const uint16_t* halves, F32* out) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    out[v] = load_halves(reinterpret_cast<const uint8_t*>(halves + v * kWidth));
  }
}

/// Eight bits of exponent, a power of two. 255 is infinite and 0 the least subnormal one.
struct PowerScale {
  static constexpr int kGroup = 32;
  MLX_RUNNERS_INLINE float read(uint8_t code) {
    const uint32_t bits = code == 0 ? 0x00400000U : static_cast<uint32_t>(code) << 23;
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
  }
};
/// A float of 8 bits, of them 4 of exponent and 3 of fraction: 256 times the half that has them.
/// All seven set are NaN, to which a carry into the half's exponent leads.
MLX_RUNNERS_INLINE uint16_t half_of_e4m3(uint8_t code) {
  const int magnitude = code & 0x7f;
  return static_cast<uint16_t>((magnitude | ((magnitude + 1) & 0x80)) << 7 | (code & 0x80) << 8);
}
struct SmallFloatScale {
  static constexpr int kGroup = 16;
  MLX_RUNNERS_INLINE float read(uint8_t code) {
    const uint16_t half = half_of_e4m3(code);
    return 256.0f * half_to_float(reinterpret_cast<const uint8_t*>(&half));
  }
};

/// mxfp4 and nvfp4: floats of 4 bits. As codes they are twice their value, and 12 more.
template <class Scale>
struct Fp4Row {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 16;
  static constexpr int kGroup = Scale::kGroup;
  static constexpr int kGroups = kWeights / kGroup;
  static constexpr bool kNarrow = true;
  static constexpr uint8_t kCodes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  /// The upper bytes of twice the values as halves; the lower ones are zero.
  static constexpr uint8_t kHalves[16] = {0x00, 0x3c, 0x40, 0x42, 0x44, 0x46, 0x48, 0x4a,
                                          0x80, 0xbc, 0xc0, 0xc2, 0xc4, 0xc6, 0xc8, 0xca};

  const uint8_t* base;
  const uint8_t* scale_row;

  MLX_RUNNERS_INLINE Fp4Row at(const WeightRows& w, int64_t row) {
    return {w.codes + row * w.row_bytes, w.scales + row * w.scale_step};
  }
  /// Of group g of the row.
  inline MLX_RUNNERS_ALWAYS_INLINE float scale_of(int64_t g) const {
    return 0.5f * Scale::read(scale_row[g]);
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void scales(int64_t b, float* scale, float* offset) const {
#pragma GCC unroll 2
    for (int g = 0; g < kGroups; ++g) {
      scale[g] = scale_of(b * kGroups + g);
      offset[g] = -12.0f * scale[g];
    }
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE Bytes codes(int64_t b) const {
    return look_up(kCodes, nibble_pairs(base + b * kBytes));
  }
  /// Without the offset, so that zeros keep their signs and large scales do no harm.
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE void weights(int64_t b, const float* scale, const float*,
                                                F32* out) const {
    const Bytes upper = look_up(kHalves, nibble_pairs(base + b * kBytes));
    uint8_t bytes[kStep];
    uint16_t halves[kStep];
    memcpy(bytes, &upper, kStep);
    for (int i = 0; i < kStep; ++i) {
      halves[i] = static_cast<uint16_t>(bytes[i] << 8);
    }
    floats_of_halves(halves, out);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      out[v] = out[v] * set1(scale[v * kGroups / kVectors]);
    }
  }
};

template <class Scale>
struct Bundle<Fp4Row<Scale>> : UnpackedCodes<Fp4Row<Scale>> {
  using Row = Fp4Row<Scale>;
  static constexpr int kBits = 5;
  static constexpr int kOffset = 12;
  MLX_RUNNERS_INLINE void scales(const Row& row, int64_t b, float* scale, float*) {
    Four scales = {};
#pragma GCC unroll 4
    for (int g = 0; g < Bundle::kBlocks * Row::kGroups; ++g) {
      scales[g] = row.scale_of(b * Row::kGroups + g);
    }
    store_four(scale, scales);
  }
};

/// mxfp8: floats of 8 bits. They have no codes: as multiples of the least one they need 18 bits.
struct Fp8Row {
  static constexpr int kWeights = 32;
  static constexpr int kBytes = 32;
  static constexpr int kGroups = 1;

  const uint8_t* base;
  const uint8_t* scale_row;

  MLX_RUNNERS_INLINE Fp8Row at(const WeightRows& w, int64_t row) {
    return {w.codes + row * w.row_bytes, w.scales + row * w.scale_step};
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void scales(int64_t b, float* scale, float*) const {
    scale[0] = PowerScale::read(scale_row[b]);
  }
  template <int j>
  inline MLX_RUNNERS_ALWAYS_INLINE void weights(int64_t b, const float* scale, const float*,
                                                F32* out) const {
    const uint8_t* bytes = base + b * kBytes;
    uint16_t halves[kStep];
    for (int i = 0; i < kStep; ++i) {
      halves[i] = half_of_e4m3(bytes[i]);
    }
    floats_of_halves(halves, out);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      out[v] = out[v] * set1(256.0f) * set1(scale[0]);
    }
  }
};

/// Products of one row x with rows of blocks that have no codes.
template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_plain_tile(const WeightRows& w, const float* x, int64_t n, float* y) {
  Row rows[kRows];
  F32 sums[kRows][2];  // two each, for shorter chains of additions
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r][0] = zero();
    sums[r][1] = zero();
  }
  const int64_t blocks = w.depth / kStep;
  for (int64_t b = 0; b < blocks; ++b, x += kStep) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float scale[Row::kGroups];
      rows[r].scales(b, scale, nullptr);
      F32 part[kVectors];
      rows[r].template weights<0>(b, scale, nullptr, part);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v % 2] = fma(part[v], load(x + v * kWidth), sums[r][v % 2]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r][0] + sums[r][1]);
  }
}

template <class Row>
void dot_plain(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    dot_plain_tile<Row, kRows>(w, x, n, y);
  });
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
