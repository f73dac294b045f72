// Arrays of blocks: uint8 [..., bytes of a row], as they lie in GGUF files.
#pragma once

#include <string>

#include "mlx/array.h"
#include "mlx/utils.h"
#include "quant/block_format.h"

namespace mlx_runners {

/// The format that an op's argument names. Throws CodedError "DTYPE" with the names that there are.
BlockFormat format_named(const std::string& name);

/// blocks [..., bytes of a row] -> float32 [..., weights of a row]. Both throw CodedError: "DTYPE"
/// for other dtypes than uint8, "SHAPE" where a row isn't made of whole blocks.
mlx::core::array dequantized(const mlx::core::array& blocks, BlockFormat format,
                             mlx::core::StreamOrDevice s);
/// The same by a kernel of its own, on CPU streams.
mlx::core::array dequantized_on_cpu(const mlx::core::array& blocks, BlockFormat format,
                                    mlx::core::StreamOrDevice s);

/// weights [..., weights of a row], of a floating-point dtype -> uint8 [..., bytes of a row].
/// Computed on the CPU whatever `s` is. Throws CodedError as above.
mlx::core::array quantized(const mlx::core::array& weights, BlockFormat format,
                           mlx::core::StreamOrDevice s);

}  // namespace mlx_runners
