// How the blocks of each format lie in a file, byte by byte: they start anywhere.
// Source: ggml-common.h of ggml-org/ggml, as gguf-py 0.19.0 reads them.
#pragma once

#include <cstdint>

#include "quant/block_format.h"
#include "quant/half.h"

namespace mlx_runners {

struct Bytes16 {
  uint8_t low, high;

  uint16_t bits() const { return static_cast<uint16_t>(low | high << 8); }
  void set(uint16_t bits) {
    low = static_cast<uint8_t>(bits);
    high = static_cast<uint8_t>(bits >> 8);
  }
};

struct Half : Bytes16 {
  float value() const { return float_of_half(bits()); }
  /// Returns what was stored, rounded.
  float store(float number) {
    set(half_of_float(number));
    return value();
  }
};

struct Bfloat : Bytes16 {
  float value() const { return float_of_bfloat(bits()); }
  void store(float number) { set(bfloat_of_float(number)); }
};

struct BlockF32 {
  Bytes16 low, high;
};
struct BlockF16 {
  Half weight;
};
struct BlockBF16 {
  Bfloat weight;
};

// Of 32 weights. `nibbles[j]` holds the low four bits of the codes j and, above, j + 16; bit j of
// `fifth_bits` is the highest of code j.
struct BlockQ4_0 {  // scale · (code − 8)
  Half scale;
  uint8_t nibbles[16];
};
struct BlockQ4_1 {  // scale · code + min
  Half scale, min;
  uint8_t nibbles[16];
};
struct BlockQ5_0 {  // scale · (code − 16)
  Half scale;
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];
};
struct BlockQ5_1 {  // scale · code + min
  Half scale, min;
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];
};
struct BlockQ8_0 {  // scale · code
  Half scale;
  int8_t codes[32];
};

// Of 256 weights. Q4_K and Q5_K have 8 groups of 32, each with a scale and a minimum of six bits:
// scale · scales[g] · code − min · mins[g]. Of every 64 weights, 32 bytes hold the first 32 in
// their low halves, the others above; bit g of fifth_bits[j] belongs to weight j of group g.
struct PackedScales {
  uint8_t bytes[12];

  void unpack(uint8_t (&scales)[8], uint8_t (&mins)[8]) const {
    for (int g = 0; g < 4; ++g) {
      const int above = bytes[8 + g];
      scales[g] = bytes[g] & 63;
      mins[g] = bytes[4 + g] & 63;
      scales[4 + g] = static_cast<uint8_t>((above & 15) | (bytes[g] >> 6) << 4);
      mins[4 + g] = static_cast<uint8_t>(above >> 4 | (bytes[4 + g] >> 6) << 4);
    }
  }
  void pack(const uint8_t (&scales)[8], const uint8_t (&mins)[8]) {
    for (int g = 0; g < 4; ++g) {
      bytes[g] = static_cast<uint8_t>(scales[g] | (scales[4 + g] >> 4) << 6);
      bytes[4 + g] = static_cast<uint8_t>(mins[g] | (mins[4 + g] >> 4) << 6);
      bytes[8 + g] = static_cast<uint8_t>((scales[4 + g] & 15) | (mins[4 + g] & 15) << 4);
    }
  }
};
struct BlockQ4_K {
  Half scale, min;
  PackedScales groups;
  uint8_t nibbles[128];
};
struct BlockQ5_K {
  Half scale, min;
  PackedScales groups;
  uint8_t fifth_bits[32];
  uint8_t nibbles[128];
};
// 16 groups of 16: scale · scales[g] · (code − 32). Of every 128 weights, 64 bytes hold the low
// halves of the weights j and, above, j + 64; and bits 2q of upper_bits[j], j < 32, belong to
// weight 32q + j.
struct BlockQ6_K {
  uint8_t nibbles[128];
  uint8_t upper_bits[64];
  int8_t scales[16];
  Half scale;
};

/// Calls `use` with the format's type of block, and how many weights it has, as template arguments.
template <class F>
void with_block(BlockFormat format, F&& use) {
  switch (format) {
#define MLX_RUNNERS_BLOCK(name)                                                \
  case BlockFormat::name:                                                      \
    static_assert(sizeof(Block##name) == block_size(BlockFormat::name).bytes); \
    return use.template operator()<Block##name, block_size(BlockFormat::name).weights>();
    MLX_RUNNERS_BLOCK(F32)
    MLX_RUNNERS_BLOCK(F16)
    MLX_RUNNERS_BLOCK(BF16)
    MLX_RUNNERS_BLOCK(Q4_0)
    MLX_RUNNERS_BLOCK(Q4_1)
    MLX_RUNNERS_BLOCK(Q5_0)
    MLX_RUNNERS_BLOCK(Q5_1)
    MLX_RUNNERS_BLOCK(Q8_0)
    MLX_RUNNERS_BLOCK(Q4_K)
    MLX_RUNNERS_BLOCK(Q5_K)
    MLX_RUNNERS_BLOCK(Q6_K)
#undef MLX_RUNNERS_BLOCK
  }
}

}  // namespace mlx_runners
