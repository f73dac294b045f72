// How the rows of a matrix of weights are stored, for the kernels of linear layers. Plain data
// only.
#pragma once

#include "quant/block_format.h"

namespace mlx_runners::cpu {

/// The GGUF formats under their own numbers, then MLX's: affine ones of 2 to 8 bits by the type of
/// their scales and biases, and small floats with a scale, of 8 bits, per 32 or (Nvfp4) 16.
enum class WeightFormat : int {
  F32 = static_cast<int>(BlockFormat::F32),
  F16 = static_cast<int>(BlockFormat::F16),
  BF16 = static_cast<int>(BlockFormat::BF16),
  Q4_0 = static_cast<int>(BlockFormat::Q4_0),
  Q4_1 = static_cast<int>(BlockFormat::Q4_1),
  Q5_0 = static_cast<int>(BlockFormat::Q5_0),
  Q5_1 = static_cast<int>(BlockFormat::Q5_1),
  Q8_0 = static_cast<int>(BlockFormat::Q8_0),
  Q4_K = static_cast<int>(BlockFormat::Q4_K),
  Q5_K = static_cast<int>(BlockFormat::Q5_K),
  Q6_K = static_cast<int>(BlockFormat::Q6_K),
  Affine4_F32,
  Affine4_F16,
  Affine4_BF16,
  Affine8_F32,
  Affine8_F16,
  Affine8_BF16,
  Affine2_F32,
  Affine2_F16,
  Affine2_BF16,
  Affine3_F32,
  Affine3_F16,
  Affine3_BF16,
  Affine5_F32,
  Affine5_F16,
  Affine5_BF16,
  Affine6_F32,
  Affine6_F16,
  Affine6_BF16,
  Mxfp4,
  Nvfp4,
  Mxfp8,
};

constexpr int kWeightFormats = static_cast<int>(WeightFormat::Mxfp8) + 1;

/// Arrays beside that of the codes: scales and biases of affine formats, scales of small floats.
constexpr int side_arrays(WeightFormat format) {
  return format <= WeightFormat::Q6_K ? 0 : format < WeightFormat::Mxfp4 ? 2 : 1;
}

/// Bytes of a scale, and of a bias, in those.
constexpr int scale_bytes(WeightFormat format) {
  if (format >= WeightFormat::Mxfp4) return 1;
  return (static_cast<int>(format) - static_cast<int>(WeightFormat::Affine4_F32)) % 3 == 0 ? 4 : 2;
}

/// Weights that a kernel handles at a time: those of a block, of the least group or two, or 1.
constexpr int block_weights(WeightFormat format) {
  return format > WeightFormat::Q6_K ? 32 : block_size(static_cast<BlockFormat>(format)).weights;
}

/// A matrix [rows, depth], read in place at any alignment. depth is a multiple of block_weights().
struct WeightRows {
  const uint8_t* codes;  // row r at codes + r * row_bytes
  int64_t row_bytes;
  int64_t depth;
  // MLX's formats only: a scale, and a bias unless the weights are small floats, per group of
  // weights; of row r from element r * scale_step on.
  const uint8_t* scales;
  const uint8_t* biases;
  int64_t scale_step;
  int group_shift;  // affine groups have (32 << group_shift) weights
};

}  // namespace mlx_runners::cpu
