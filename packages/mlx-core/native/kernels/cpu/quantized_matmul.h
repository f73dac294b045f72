#pragma once

#include <cstdint>
#include <span>

#include "kernels/cpu/weight_format.h"

namespace mlx_runners::cpu {

/// What a product with quantised weights may do to its other operand.
enum class Precision {
  kExact,  // nothing: float32 operands and sums
  kFast,   // round it to 8 bits per group of 32, of magnitude largest / 127
};

/// A matrix of weights [columns, rows.depth].
struct WeightMatrix {
  WeightFormat format;
  WeightRows rows;
  int64_t columns;
};

/// out [rows, w.columns] = x [rows, depth] x w^T + bias, all row-contiguous; bias [w.columns] or
/// null.
struct QuantizedProduct {
  WeightMatrix w;
  const float* bias;
  float* out;
};

/// Products of one x with weights of one format and depth, on the thread pool, sizes at least 1,
/// each the same as alone. Weights are read in place, once for few rows; many rows go through
/// packed panels. kFast is the exact product of the rounded x up to float32 rounding, for formats
/// with codes; others know kExact only.
void quantized_matmul(const float* x, int64_t rows, std::span<const QuantizedProduct> products,
                      Precision precision);
/// A single one.
void quantized_matmul(const float* x, int64_t rows, const WeightMatrix& w, const float* bias,
                      Precision precision, float* out);

/// out[i] = row ids[i] of w in float32; rows that there are not are NaN. Negative ids count from
/// the end.
void quantized_take(const WeightMatrix& w, const int64_t* ids, int64_t count, float* out);

}  // namespace mlx_runners::cpu
