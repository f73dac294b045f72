#pragma once

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// The kernels in use: the best that this CPU runs, or the lower ones that the environment variable
/// MLX_RUNNERS_SIMD=baseline|avx2|avx2vnni|avx512|avx512vnni|neon|neondotprod asks for. Decided on
/// the first call.
const KernelTable& kernels();

/// Name of the instruction set in use.
const char* simd_level();

/// Why MLX_RUNNERS_SIMD was not followed; empty when it was or isn't set.
const char* simd_note();

}  // namespace mlx_runners::cpu
