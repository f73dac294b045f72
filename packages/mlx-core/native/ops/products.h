// What the rows that multiply by quantised weights have in common.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cpu/quantized_matmul.h"
#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners {

/// How a row names precisions, and which one a name is.
inline constexpr const char* precisions = "exact|fast";
cpu::Precision precision_named(const std::string& name);

/// Throws CodedError "DTYPE" unless the argument is float32, float16 or bfloat16.
void check_float(const char* name, const mlx::core::array& argument);

/// An argument as it is multiplied: integers and booleans as float32. Throws CodedError "DTYPE" for
/// float64 and complex64, of which a product in float32 would keep but a part.
mlx::core::array factor(const char* name, const mlx::core::array& argument,
                        const mlx::core::Stream& stream);
/// The same in float32, in which products are computed.
mlx::core::array factor_in_float32(const char* name, const mlx::core::array& argument,
                                   const mlx::core::Stream& stream);

/// Both throw CodedError "SHAPE": unless the last axis of x is as long as a row of w; unless bias,
/// if any, has a number for each row of w.
void check_rows(const mlx::core::array& x, int depth);
void check_bias(const std::optional<mlx::core::array>& bias, const mlx::core::array& w);

/// A list that goes with one of matrices, and the argument's name.
struct NamedList {
  const char* name;
  const std::optional<std::vector<mlx::core::array>>& arrays;
};
/// Throws CodedError "SHAPE" unless there are matrices, and as many arrays in each list that is
/// given.
void check_lists(const std::vector<mlx::core::array>& w, std::initializer_list<NamedList> lists);

}  // namespace mlx_runners
