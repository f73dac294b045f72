// What the rows that multiply by quantised weights have in common.
#pragma once

#include <optional>
#include <string>

#include "kernels/cpu/quantized_matmul.h"
#include "mlx/array.h"

namespace mlx_runners {

/// Throws CodedError "DTYPE" for other names than 'exact' and 'fast'.
cpu::Precision precision_named(const std::string& name);

/// x of float16 or bfloat16 as float32, in which products are computed; x itself otherwise.
mlx::core::array in_float32(const mlx::core::array& x, const mlx::core::Stream& stream);

/// Both throw CodedError "SHAPE": unless the last axis of x is as long as a row of w; unless bias,
/// if any, has a number for each row of w.
void check_rows(const mlx::core::array& x, int depth);
void check_bias(const std::optional<mlx::core::array>& bias, const mlx::core::array& w);

}  // namespace mlx_runners
