#pragma once

#include <cstdint>

#include "kernels/cpu/scratch.h"

namespace mlx_runners::cpu {

/// By how much pairs of columns are turned.
struct Rotation {
  int64_t dims;        // the first of the columns are turned; even
  bool traditional;    // pairs are neighbours, not halves
  float base;          // pair i turns by base^(-2i / dims) for each position
  const float* freqs;  // or by 1 / freqs[i]; null for base
  float scale;         // of positions
};

/// Strides are in elements; the last axis of x and y is contiguous.
struct Rope : Rotation {
  const float* x;  // [B, heads, positions, columns]
  float* y;        // the same shape; may be x
  int64_t heads;
  int64_t positions;
  int64_t columns;
  int64_t x_strides[3];  // batch, head, position
  int64_t y_strides[3];
  int32_t offset;          // position of the first row
  const int32_t* offsets;  // or one for each batch; null for `offset`
  int64_t offset_step;     // 0: one for all batches
};

/// Rotary position embedding on the thread pool, for `batches` batches. Angles are float32
/// products, as in MLX and PyTorch, of correctly rounded frequencies.
void rope(const Rope& op, int64_t batches);

/// What one position turns each pair by.
class Frequencies {
 public:
  explicit Frequencies(const Rotation& rotation);

  const Rotation& rotation() const { return rotation_; }
  const float* data() const { return data_.data(); }

 private:
  Rotation rotation_;
  Scratch data_;
};

/// Turns rows of one position after the other, on the thread that has it.
class Angles {
 public:
  explicit Angles(const Frequencies& frequencies);

  void set(int64_t position);
  /// y = the rows of x turned; y may be x.
  void turn(const float* x, int64_t x_step, float* y, int64_t y_step, int64_t rows,
            int64_t columns) const;

 private:
  const Frequencies& frequencies_;
  Scratch data_;  // cosines and sines as the kernel wants them
};

}  // namespace mlx_runners::cpu
