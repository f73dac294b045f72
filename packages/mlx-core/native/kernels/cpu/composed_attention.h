#pragma once

#include <optional>
#include <string>

#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners::cpu {

/// What changes the scores of attention.
struct AttentionOptions {
  float scale;
  std::string mask_mode;  // "", "causal" or "array"
  int window;             // 0: none
  float softcap;          // 0: none

  bool causal() const { return mask_mode == "causal"; }
};

/// Attention in MLX's own ops, on any device and under transforms; its
/// fast::scaled_dot_product_attention where there is no softcap. Throws std::invalid_argument for
/// what that doesn't take.
mlx::core::array composed_attention(const mlx::core::array& q, const mlx::core::array& k,
                                    const mlx::core::array& v, const AttentionOptions& options,
                                    std::optional<mlx::core::array> mask,
                                    const std::optional<mlx::core::array>& sinks,
                                    const mlx::core::Stream& stream);

}  // namespace mlx_runners::cpu
