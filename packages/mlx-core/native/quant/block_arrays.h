// Arrays of blocks: uint8 [..., bytes of a row], as they lie in GGUF files; those of F32, F16 and
// BF16 also as the numbers that they are, [..., weights of a row] of that dtype.
#pragma once

#include <string>

#include "mlx/array.h"
#include "mlx/utils.h"
#include "quant/block_format.h"

namespace mlx_runners {

/// The format that an op's argument names. Throws CodedError "DTYPE" with the names that there are.
BlockFormat format_named(const std::string& name);

/// The shape [..., weights of a row] of blocks. Throws CodedError, as what follows: "DTYPE" for
/// other dtypes than uint8 and the format's own, "SHAPE" where a row isn't made of whole blocks.
/// `name` is the argument's.
mlx::core::Shape dequantized_shape(const char* name, const mlx::core::array& blocks,
                                   BlockFormat format);

/// blocks -> float32 [..., weights of a row].
mlx::core::array dequantized(const mlx::core::array& blocks, BlockFormat format,
                             mlx::core::StreamOrDevice s);
/// The same by a kernel of its own, on CPU streams.
mlx::core::array dequantized_on_cpu(const mlx::core::array& blocks, BlockFormat format,
                                    mlx::core::StreamOrDevice s);

/// weights [..., weights of a row], of a floating-point dtype -> uint8 [..., bytes of a row].
/// Computed on the CPU whatever `s` is. Throws CodedError "SHAPE" as above.
mlx::core::array quantized(const mlx::core::array& weights, BlockFormat format,
                           mlx::core::StreamOrDevice s);

}  // namespace mlx_runners
