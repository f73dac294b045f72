// MLX ops with fused CPU kernels behind them.
//
// Each function takes the kernel when it can: on a CPU stream, outside transforms, for float32
// arrays of the ranks that the kernel knows. Everything else is MLX's own op, which also raises the
// errors for wrong shapes and dtypes. The primitives have vjp, jvp and vmap by way of MLX's op.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners::cpu {

/// mlx::core::softmax; fused over the last axis.
mlx::core::array softmax(const mlx::core::array& x, const std::vector<int>& axes,
                         bool precise = false, mlx::core::StreamOrDevice s = {});

/// x * Phi(x), elementwise, by the error function.
mlx::core::array gelu(const mlx::core::array& x, mlx::core::StreamOrDevice s = {});

/// mlx::core::fast::layer_norm: over the last axis, weight and bias [x.shape(-1)] or none.
mlx::core::array layer_norm(const mlx::core::array& x,
                            const std::optional<mlx::core::array>& weight,
                            const std::optional<mlx::core::array>& bias, float eps,
                            mlx::core::StreamOrDevice s = {});

/// mlx::core::fast::scaled_dot_product_attention: q [B, H, Tq, D], k [B, Hkv, Tk, D],
/// v [B, Hkv, Tk, Dv], mask broadcastable to [B, H, Tq, Tk] -> [B, H, Tq, Dv]. Inputs are read in
/// place when their last axis is contiguous; when q is a view of [B, Tq, H, D], so is the result of
/// [B, Tq, H, Dv].
mlx::core::array scaled_dot_product_attention(
    const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v, float scale,
    const std::string& mask_mode = "", std::optional<mlx::core::array> mask = std::nullopt,
    const std::optional<mlx::core::array>& sinks = std::nullopt, mlx::core::StreamOrDevice s = {});

/// mlx::core::conv1d: x [B, T, Cin], w [Cout, K, Cin / groups] -> [B, T', Cout].
mlx::core::array conv1d(const mlx::core::array& x, const mlx::core::array& w, int stride = 1,
                        int padding = 0, int dilation = 1, int groups = 1,
                        mlx::core::StreamOrDevice s = {});

/// x w^T + bias: x [..., K], w [N, K], bias [N] -> [..., N].
/// Throws std::invalid_argument when w isn't a matrix or the last axes differ.
mlx::core::array linear(const mlx::core::array& x, const mlx::core::array& w,
                        const std::optional<mlx::core::array>& bias = std::nullopt,
                        mlx::core::StreamOrDevice s = {});

}  // namespace mlx_runners::cpu
