// Shapes and dtypes of arrays that JavaScript makes from bytes.
#pragma once

#include <napi.h>

#include "mlx/array.h"

namespace mlx_runners {

mlx::core::Dtype dtype_argument(const Napi::Value& value);

// Reads a list of sizes and checks that `bytes` hold that many elements: exactly, or at least.
mlx::core::Shape shape_argument(const Napi::Value& value, mlx::core::Dtype dtype, size_t bytes,
                                bool exactly);

}  // namespace mlx_runners
