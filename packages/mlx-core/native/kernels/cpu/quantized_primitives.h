// Products with quantised weights as MLX primitives: on CPU streams, outside transforms, for
// float32 activations. The caller checks shapes and gives the composed form, which transforms use.
#pragma once

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/quantized_matmul.h"
#include "mlx/array.h"

namespace mlx_runners::cpu {

/// Weights as arrays, of rows [..., K]: codes, and the format's scales and biases; affine ones have
/// groups of (32 << group_shift).
struct WeightArrays {
  WeightFormat format;
  std::vector<mlx::core::array> arrays;
  int depth;  // K
  int group_shift = 0;
};

/// x [..., K] times each of `weights`, [N, K] of one format, depth and group, transposed, + its
/// bias [N]; as many biases as weights, or none. `composed` does this for one: its inputs are x,
/// the arrays of w, bias if any.
std::vector<mlx::core::array> quantized_linears(const mlx::core::array& x,
                                                const std::vector<WeightArrays>& weights,
                                                const std::vector<mlx::core::array>& biases,
                                                Precision precision, Composed composed,
                                                const mlx::core::Stream& stream);
/// The same for a single one.
mlx::core::array quantized_linear(const mlx::core::array& x, const WeightArrays& w,
                                  const std::optional<mlx::core::array>& bias, Precision precision,
                                  Composed composed, const mlx::core::Stream& stream);

/// Block left[i] of x [B, M, K], or block i without `left`, times matrix right[i] of w [E, N, K]^T
/// -> [pairs, M, N], NaN where there is no such block or matrix; indices int64 [pairs]. Inputs of
/// the composed form: x, the arrays of w, right, left if any.
mlx::core::array quantized_gather_linear(const mlx::core::array& x, const WeightArrays& w,
                                         const std::optional<mlx::core::array>& left,
                                         const mlx::core::array& right, Precision precision,
                                         Composed composed, const mlx::core::Stream& stream);

/// Rows of w [N, K] -> float32 [..., K]; ids int64 [...]. Inputs of the composed form: the arrays
/// of w, ids.
mlx::core::array quantized_take_rows(const WeightArrays& w, const mlx::core::array& ids,
                                     Composed composed, const mlx::core::Stream& stream);

}  // namespace mlx_runners::cpu
