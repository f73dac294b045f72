// Products x · wᵀ on the thread pool, ready to be timed.
#pragma once

#include <vector>

#include "bench/weights.h"
#include "kernels/cpu/matmul.h"

namespace mlx_runners::bench {

/// With weights in float32.
struct DenseProduct {
  DenseProduct(int64_t rows, int64_t columns, int64_t depth);
  void multiply();

  int64_t rows, columns, depth;
  std::vector<float> x, w, y;
};

/// With quantised weights, `matrices` of which lie one after another from `weights` on.
struct QuantisedProduct {
  QuantisedProduct(const Format& format, cpu::Precision precision, int64_t rows, int64_t columns,
                   int64_t depth, const uint8_t* weights, int64_t matrices = 1);
  /// With one after another, as a model's layers follow each other.
  void multiply();

  const Format& format;
  cpu::Precision precision;
  int64_t rows, columns, depth;
  const uint8_t* weights;
  int64_t step;
  int64_t matrices;
  std::vector<float> x, y;
};

/// " exact" or " fast"
const char* suffix(cpu::Precision precision);

}  // namespace mlx_runners::bench
