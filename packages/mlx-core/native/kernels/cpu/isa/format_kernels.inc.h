// The kernels of each format of weights. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/bytes_matmul.inc.h"
#include "kernels/cpu/isa/gemv.inc.h"
#include "kernels/cpu/isa/mlx_formats.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

template <class Row>
constexpr FormatKernels coded_format() {
  return {.dequantize = dequantize<Row>,
          .exact_floats = exact_floats<Row>,
          .order_exact = order_exact<Row>,
          .dot_exact = dot_exact<Row>,
          .fast_floats = fast_floats<Row>,
          .order_fast = order_fast<Row>,
          .dot_fast = dot_fast<Row>,
          .unpack = unpack<Row>,
          .multiply_bytes = multiply_bytes<Row::kGroup, Row::kNarrow>,
          .group = Row::kGroup};
}

using Dequantize = decltype(FormatKernels::dequantize);
using DotExact = decltype(FormatKernels::dot_exact);

/// For formats that are read in order and have no codes.
constexpr FormatKernels format_without_codes(Dequantize dequantize, DotExact dot_exact) {
  return {.dequantize = dequantize,
          .exact_floats = nullptr,
          .order_exact = nullptr,
          .dot_exact = dot_exact,
          .fast_floats = nullptr,
          .order_fast = nullptr,
          .dot_fast = nullptr,
          .unpack = nullptr,
          .multiply_bytes = nullptr,
          .group = 0};
}

template <class Type>
constexpr FormatKernels dense_format() {
  return format_without_codes(dequantize_dense<Type>, dot_dense<Type>);
}
template <class Row>
constexpr FormatKernels plain_format() {
  return format_without_codes(dequantize<Row>, dot_plain<Row>);
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
