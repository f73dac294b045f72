// How the rows of a matrix of weights are stored, for the kernels of linear layers. Plain data
// only.
#pragma once

#include "quant/block_format.h"

namespace mlx_runners::cpu {

/// The GGUF formats under their own numbers, then MLX's affine ones: 4 or 8 bits, by the type of
/// their scales and biases.
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
};

constexpr int kWeightFormats = static_cast<int>(WeightFormat::Affine8_BF16) + 1;

/// Weights that a kernel handles at a time: those of a block, of an affine group's least size,
/// or 1.
constexpr int block_weights(WeightFormat format) {
  return format > WeightFormat::Q6_K ? 32 : block_size(static_cast<BlockFormat>(format)).weights;
}

/// A matrix [rows, depth], read in place at any alignment. depth is a multiple of block_weights().
struct WeightRows {
  const uint8_t* codes;  // row r at codes + r * row_bytes
  int64_t row_bytes;
  int64_t depth;
  // Affine formats only: a scale and a bias per group of (32 << group_shift) weights; of row r from
  // element r * scale_step on.
  const uint8_t* scales;
  const uint8_t* biases;
  int64_t scale_step;
  int group_shift;
};

}  // namespace mlx_runners::cpu
