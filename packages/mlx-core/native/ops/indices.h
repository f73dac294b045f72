// What MLX leaves to the caller: that indices lie within the array they point into.
#pragma once

#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners {

// The size of an axis; throws std::invalid_argument when there is none.
size_t axis_size(const mlx::core::array& array, int axis);

// Throws std::invalid_argument for indices that are no integers and, on the CPU, for values outside
// [−size, size) where they are known already: indices yet to be computed aren't waited for.
void check_indices(const char* op, const mlx::core::array& indices, size_t size,
                   mlx::core::StreamOrDevice s);

}  // namespace mlx_runners
