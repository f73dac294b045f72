#pragma once

#include <cstdint>

namespace mlx_runners::cpu {

/// Strides are in elements; the last axis of x and y is contiguous.
struct Rope {
  const float* x;  // [B, heads, positions, columns]
  float* y;        // the same shape; may be x
  int64_t heads;
  int64_t positions;
  int64_t columns;
  int64_t x_strides[3];  // batch, head, position
  int64_t y_strides[3];
  int64_t dims;            // the first of the columns are turned; even
  bool traditional;        // pairs are neighbours, not halves
  float base;              // pair i turns by base^(-2i / dims) for each position
  const float* freqs;      // or by 1 / freqs[i]; null for base
  float scale;             // of positions
  int32_t offset;          // position of the first row
  const int32_t* offsets;  // or one for each batch; null for `offset`
  int64_t offset_step;     // 0: one for all batches
};

/// Rotary position embedding on the thread pool, for `batches` batches. Angles are float32
/// products, as in MLX and PyTorch, of correctly rounded frequencies.
void rope(const Rope& op, int64_t batches);

}  // namespace mlx_runners::cpu
