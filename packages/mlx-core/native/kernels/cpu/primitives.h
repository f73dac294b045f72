// MLX ops with fused CPU kernels behind them.
//
// Each function takes the kernel when it can: on a CPU stream, outside transforms, for float32
// arrays of the ranks that the kernel knows. Everything else is MLX's own op, which also raises the
// errors for wrong shapes and dtypes. The primitives have vjp, jvp and vmap by way of MLX's op.
#pragma once

#include <optional>
#include <string>
#include <variant>
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

/// mlx::core::fast::rms_norm: over the last axis, weight [x.shape(-1)] or none.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                          float eps, mlx::core::StreamOrDevice s = {});

/// {x + residual, rms_norm of that}: x and residual of one shape.
/// Throws std::invalid_argument when the shapes differ.
std::vector<mlx::core::array> add_rms_norm(const mlx::core::array& x,
                                           const mlx::core::array& residual,
                                           const std::optional<mlx::core::array>& weight, float eps,
                                           mlx::core::StreamOrDevice s = {});

/// silu(gate) * up: operands of one shape.
/// Throws std::invalid_argument when the shapes differ.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up,
                        mlx::core::StreamOrDevice s = {});

/// gelu(gate) * up, by the tanh approximation or exactly: operands of one shape.
/// Throws std::invalid_argument when the shapes differ.
mlx::core::array geglu(const mlx::core::array& gate, const mlx::core::array& up, bool approximate,
                       mlx::core::StreamOrDevice s = {});

/// mlx::core::fast::rope: x [..., T, D], offset a number, or an array of one for all or for each of
/// the first axis. Fused for 3 and 4 axes and even dims.
mlx::core::array rope(const mlx::core::array& x, int dims, bool traditional,
                      std::optional<float> base, float scale,
                      const std::variant<int, mlx::core::array>& offset,
                      const std::optional<mlx::core::array>& freqs,
                      mlx::core::StreamOrDevice s = {});

/// mlx::core::fast::scaled_dot_product_attention: q [B, H, Tq, D], k [B, Hkv, Tk, D],
/// v [B, Hkv, Tk, Dv], mask broadcastable to [B, H, Tq, Tk], sinks [H] -> [B, H, Tq, Dv]. Inputs
/// are read in place when their last axis is contiguous; when q is a view of [B, Tq, H, D], so is
/// the result of [B, Tq, H, Dv].
mlx::core::array scaled_dot_product_attention(
    const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v, float scale,
    const std::string& mask_mode = "", std::optional<mlx::core::array> mask = std::nullopt,
    const std::optional<mlx::core::array>& sinks = std::nullopt, mlx::core::StreamOrDevice s = {});

/// The same with two things more: query i sees only keys j > i + Tk - Tq - window (0: all), and
/// before any mask scores become softcap * tanh(score / softcap) (0: they stay). Keys before all
/// windows are not read. Throws std::invalid_argument when either is negative.
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k,
                           const mlx::core::array& v, float scale, const std::string& mask_mode,
                           std::optional<mlx::core::array> mask,
                           const std::optional<mlx::core::array>& sinks, int window, float softcap,
                           mlx::core::StreamOrDevice s = {});

/// attention with 'causal', of queries at positions from `position` on, over a cache whose slot
/// j % S has the key of position j: q [B, H, T, D], keys [B, Hkv, S, D], values [B, Hkv, S, Dv] ->
/// [B, H, T, Dv]. Read are the slots from the first query's window, or from 0 without one, to the
/// last query; S has to hold them. The kernel reads few queries' keys in place, wherever they wrap.
/// Throws std::invalid_argument for shapes and numbers that don't fit.
mlx::core::array kv_cache_attention(const mlx::core::array& q, const mlx::core::array& keys,
                                    const mlx::core::array& values, int position, float scale,
                                    int window, float softcap, mlx::core::StreamOrDevice s = {});

/// mlx::core::conv1d: x [B, T, Cin], w [Cout, K, Cin / groups] -> [B, T', Cout].
mlx::core::array conv1d(const mlx::core::array& x, const mlx::core::array& w, int stride = 1,
                        int padding = 0, int dilation = 1, int groups = 1,
                        mlx::core::StreamOrDevice s = {});

/// mlx::core::matmul, of float16 and bfloat16 with sums of float32. A matrix b of these that is
/// a transposed view is read in place.
mlx::core::array matmul(const mlx::core::array& a, const mlx::core::array& b,
                        mlx::core::StreamOrDevice s = {});

/// x w^T + bias: x [..., K], w [N, K], bias [N] -> [..., N]. Each may be of float32, float16 or
/// bfloat16; sums are float32, and the result has the type that MLX gives it.
/// Throws std::invalid_argument when w isn't a matrix or the last axes differ.
mlx::core::array linear(const mlx::core::array& x, const mlx::core::array& w,
                        const std::optional<mlx::core::array>& bias = std::nullopt,
                        mlx::core::StreamOrDevice s = {});

}  // namespace mlx_runners::cpu
