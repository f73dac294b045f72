#include "bench/products.h"

namespace mlx_runners::bench {

DenseProduct::DenseProduct(int64_t rows, int64_t columns, int64_t depth)
    : rows(rows),
      columns(columns),
      depth(depth),
      x(make_activations(rows * depth)),
      w(make_activations(columns * depth)),
      y(static_cast<size_t>(rows * columns)) {}

void DenseProduct::multiply() {
  const cpu::LeftRows left = cpu::plain_matrix(x.data(), rows, depth);
  cpu::matmul_transposed(left, rows, w.data(), columns, nullptr, y.data());
}

QuantisedProduct::QuantisedProduct(const Format& format, cpu::Precision precision, int64_t rows,
                                   int64_t columns, int64_t depth, const uint8_t* weights,
                                   int64_t matrices)
    : format(format),
      precision(precision),
      rows(rows),
      columns(columns),
      depth(depth),
      weights(weights),
      step(matrix_step(format, columns, depth)),
      matrices(matrices),
      x(make_activations(rows * depth)),
      y(static_cast<size_t>(rows * columns)) {}

void QuantisedProduct::multiply() {
  for (int64_t i = 0; i < matrices; ++i) {
    const cpu::WeightMatrix w = matrix_at(weights + i * step, format, columns, depth);
    cpu::quantized_matmul(x.data(), rows, w, nullptr, precision, y.data());
  }
}

const char* suffix(cpu::Precision precision) {
  return precision == cpu::Precision::kExact ? " exact" : " fast";
}

}  // namespace mlx_runners::bench
