// Shapes that come with bytes, as JavaScript and files give them.
#pragma once

#include <cstddef>
#include <span>

#include "mlx/array.h"

namespace mlx_runners {

// The shape, once it is sure that `bytes` hold that many elements: exactly, or at least. Throws
// CodedError "SHAPE".
mlx::core::Shape checked_shape(std::span<const double> sizes, mlx::core::Dtype dtype, size_t bytes,
                               bool exactly);

}  // namespace mlx_runners
