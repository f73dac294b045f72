// Rotary position embedding (Su et al., "RoFormer", 2021). Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// Pairs (x[i], x[i + half]).
void rotate_halves(const float* x, float* y, int64_t half, const float* cosines,
                   const float* sines) {
  for (int64_t i = 0; i < half; i += kWidth) {
    const int n = half - i < kWidth ? static_cast<int>(half - i) : kWidth;
    const F32 a = load_n(x + i, n);
    const F32 b = load_n(x + half + i, n);
    const F32 c = load_n(cosines + i, n);
    const F32 s = load_n(sines + i, n);
    store_n(y + i, fnma(b, s, a * c), n);
    store_n(y + half + i, fma(a, s, b * c), n);
  }
}

/// Pairs (x[2i], x[2i + 1]); every angle comes twice, its sine first negated.
void rotate_neighbours(const float* x, float* y, int64_t dims, const float* cosines,
                       const float* sines) {
  for (int64_t i = 0; i < dims; i += kWidth) {
    const int n = dims - i < kWidth ? static_cast<int>(dims - i) : kWidth;
    const F32 v = load_n(x + i, n);
    const F32 turned = swap_pairs(v) * load_n(sines + i, n);
    store_n(y + i, fma(v, load_n(cosines + i, n), turned), n);
  }
}

void rope_rows(const RopeRows& op, const float* cosines, const float* sines) {
  const float* x = op.x;
  float* y = op.y;
  for (int64_t r = 0; r < op.rows; ++r, x += op.x_step, y += op.y_step) {
    if (op.traditional) {
      rotate_neighbours(x, y, op.dims, cosines, sines);
    } else {
      rotate_halves(x, y, op.dims / 2, cosines, sines);
    }
    if (y != x) {
      memcpy(y + op.dims, x + op.dims, static_cast<size_t>(op.columns - op.dims) * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
