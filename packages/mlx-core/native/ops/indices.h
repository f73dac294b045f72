// What MLX leaves to the caller: that indices lie within the array they point into.
#pragma once

#include <optional>
#include <string>

#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners {

// The size of an axis; throws std::invalid_argument when there is none.
size_t axis_size(const mlx::core::array& array, int axis);

// Whether values can be looked at: on the CPU, and computed already.
bool is_known(const mlx::core::array& array, mlx::core::StreamOrDevice s);

// A value of an array of integers outside [−size, size); nothing while its values aren't known.
std::optional<std::string> value_outside(const mlx::core::array& array, size_t size,
                                         mlx::core::StreamOrDevice s);

// Throws std::invalid_argument for indices that are no integers, for any of an axis of size 0 and
// for values outside [−size, size) where they are known: those yet to be computed aren't waited
// for.
void check_indices(const char* op, const mlx::core::array& indices, size_t size,
                   mlx::core::StreamOrDevice s);

// The same indices for an op that reads or writes wherever they point: on the CPU those that are
// yet to be computed are checked when they are. An evaluation with one outside fails, and touches
// no other memory.
mlx::core::array checked_indices(const char* op, const mlx::core::array& indices, size_t size,
                                 mlx::core::StreamOrDevice s);

}  // namespace mlx_runners
