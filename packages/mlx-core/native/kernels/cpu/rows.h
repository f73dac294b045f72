#pragma once

#include <cstdint>

namespace mlx_runners::cpu {

/// y = softmax(x) over rows of `columns` floats, on the thread pool. x may be y.
void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns);

/// y = x * Phi(x), the exact GELU (Hendrycks and Gimpel, 2016), on the thread pool. x may be y.
void gelu(const float* x, float* y, int64_t n);

/// y = (x - mean) / sqrt(variance + eps) * weight + bias over rows of `columns` floats, on the
/// thread pool; two passes, population variance. weight and bias may be null; x may be y.
void layer_norm_rows(const float* x, const float* weight, const float* bias, float eps, float* y,
                     int64_t rows, int64_t columns);

}  // namespace mlx_runners::cpu
