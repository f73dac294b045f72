// What blocks mean, in MLX's own ops: for GPUs, and for transforms of the CPU's kernel.
#pragma once

#include "mlx/array.h"
#include "mlx/utils.h"
#include "quant/block_format.h"

namespace mlx_runners {

/// blocks: uint8 [..., n · bytes] -> float32 of n · weights numbers each, in any shape. The fields
/// are those of quant/blocks.h.
mlx::core::array block_formula(const mlx::core::array& blocks, BlockFormat format,
                               mlx::core::StreamOrDevice s);

}  // namespace mlx_runners
