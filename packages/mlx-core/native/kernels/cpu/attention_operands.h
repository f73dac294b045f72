#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/composed_attention.h"
#include "kernels/cpu/kernel_table.h"
#include "mlx/array.h"

namespace mlx_runners::cpu {

/// What an array has for each head and position; its last axis is contiguous.
struct HeadRows {
  float* data;
  int64_t batches;
  int64_t heads;
  int64_t positions;
  int64_t size;
  int64_t strides[3];  // batch, head, position

  /// x [B, H, T, D], or, with their number, heads side by side: [B, T, heads * D].
  explicit HeadRows(mlx::core::array x, int64_t side_by_side = 0);

  float* at(int64_t batch, int64_t position) const {
    return data + batch * strides[0] + position * strides[2];
  }
};

/// An attention of all keys, without a mask and sinks.
Attention attention_operands(const AttentionOptions& options, const HeadRows& q, const HeadRows& k,
                             const HeadRows& v, const HeadRows& out);
/// Of a primitive, whose first inputs are q, k and v, each [B, H, T, D]; allocates `out`.
Attention attention_operands(const AttentionOptions& options,
                             const std::vector<mlx::core::array>& inputs,
                             const mlx::core::Stream& stream, mlx::core::array& out);

}  // namespace mlx_runners::cpu
