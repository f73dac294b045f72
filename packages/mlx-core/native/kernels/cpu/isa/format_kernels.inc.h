// The kernels of each format of weights. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/bytes_matmul.inc.h"
#include "kernels/cpu/isa/nibbles.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

template <class Row>
constexpr auto exact_order() -> void (*)(const float*, int64_t, float*, float*) {
  if constexpr (Row::kNibbles == Nibbles16::kNone) {
    return nullptr;
  } else {
    return order_nibbles<Row::kNibbles>;
  }
}
template <class Row>
constexpr auto exact_product() -> decltype(FormatKernels::dot_exact) {
  if constexpr (Row::kNibbles == Nibbles16::kNone) {
    return dot_exact<Row>;
  } else {
    return dot_nibbles<Row>;
  }
}

template <class Row>
constexpr FormatKernels coded_format() {
  return {.dequantize = dequantize<Row>,
          .order = exact_order<Row>(),
          .dot_exact = exact_product<Row>(),
          .dot_fast = dot_fast<Row>,
          .unpack = unpack<Row>,
          .multiply_bytes = multiply_bytes<Row::kGroup, Row::kNarrow>,
          .group = Row::kGroup};
}

template <class Type>
constexpr FormatKernels dense_format() {
  return {.dequantize = dequantize_dense<Type>,
          .order = nullptr,
          .dot_exact = dot_dense<Type>,
          .dot_fast = nullptr,
          .unpack = nullptr,
          .multiply_bytes = nullptr,
          .group = 0};
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
