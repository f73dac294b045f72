#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// out[rows, columns] = left x w^T + bias on the thread pool: w [columns, left.depth]
/// row-contiguous, bias [columns] or null, out row-contiguous; all sizes at least 1. Few rows read
/// w once, at memory speed; many rows go through packed panels (Goto and van de Geijn, "Anatomy of
/// High-Performance Matrix Multiplication", 2008).
void matmul_transposed(const LeftRows& left, int64_t rows, const float* w, int64_t columns,
                       const float* bias, float* out);

}  // namespace mlx_runners::cpu
