#pragma once

#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners::program {

// mlx::core::slice_update that writes into `a`'s own buffer, whoever else holds it: for programs
// that have shown that nothing reads `a` any more. On the CPU; elsewhere, and where the update has
// to be broadcast or cast, it is MLX's op.
mlx::core::array slice_update_in_place(const mlx::core::array& a, const mlx::core::array& update,
                                       mlx::core::Shape start, mlx::core::Shape stop,
                                       mlx::core::StreamOrDevice s);

}  // namespace mlx_runners::program
