#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// y = softmax(x) over rows of `columns` floats, on the thread pool. x may be y.
void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns);

/// y = x * Phi(x), the exact GELU (Hendrycks and Gimpel, 2016), on the thread pool. x may be y.
void gelu(const float* x, float* y, int64_t n);

/// y = (x - mean) / sqrt(variance + eps) * weight + bias over rows of `columns` floats, on the
/// thread pool; two passes, population variance. weight and bias may be null; x may be y.
void layer_norm_rows(const float* x, const float* weight, const float* bias, float eps, float* y,
                     int64_t rows, int64_t columns);

/// y = x / sqrt(mean of x^2 + eps) * weight over rows of `columns` floats, on the thread pool
/// (Zhang and Sennrich, 2019). weight may be null; x may be y.
void rms_norm_rows(const float* x, const float* weight, float eps, float* y, int64_t rows,
                   int64_t columns);

/// sum = x + residual, and y = rms_norm_rows of it, in one pass over memory. sum and y are two
/// arrays, each of which may be one of x and residual.
void add_rms_norm_rows(const float* x, const float* residual, const float* weight, float eps,
                       float* sum, float* y, int64_t rows, int64_t columns);

/// y = activation(gate) * up over rows of `columns` floats, on the thread pool. Rows of gate and of
/// up lie `gate_step` and `up_step` floats apart, those of y side by side; y may be an operand
/// whose rows do so too.
void glu(GluKind kind, const float* gate, int64_t gate_step, const float* up, int64_t up_step,
         float* y, int64_t rows, int64_t columns);

}  // namespace mlx_runners::cpu
