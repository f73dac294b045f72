// The kernels of each format of weights. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/bytes_matmul.inc.h"
#include "kernels/cpu/isa/gemv.inc.h"
#include "kernels/cpu/isa/mlx_formats.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

template <class Row>
constexpr FormatKernels coded_format(int max_exact_rows = 3, int max_fast_rows = 5) {
  return {.dequantize = dequantize<Row>,
          .exact_floats = exact_floats<Row>,
          .order_exact = order_exact<Row>,
          .dot_exact = dot_exact<Row>,
          .max_exact_rows = max_exact_rows,
          .fast_floats = fast_floats<Row>,
          .order_fast = order_fast<Row>,
          .dot_fast = dot_fast<Row>,
          .max_fast_rows = max_fast_rows,
          .unpack = unpack<Row>,
          .multiply_bytes = multiply_bytes<Row::kGroup, Row::kNarrow>,
          .group = Row::kGroup};
}

/// For formats of which unpacking is most of the work.
template <class Row>
constexpr FormatKernels unpacked_format() {
  return coded_format<Row>(2, 2);
}

using Dequantize = decltype(FormatKernels::dequantize);
using DotExact = decltype(FormatKernels::dot_exact);

/// For formats that are read in order and have no codes.
constexpr FormatKernels format_without_codes(Dequantize dequantize, DotExact dot_exact,
                                             int max_exact_rows) {
  return {.dequantize = dequantize,
          .exact_floats = nullptr,
          .order_exact = nullptr,
          .dot_exact = dot_exact,
          .max_exact_rows = max_exact_rows,
          .fast_floats = nullptr,
          .order_fast = nullptr,
          .dot_fast = nullptr,
          .max_fast_rows = 0,
          .unpack = nullptr,
          .multiply_bytes = nullptr,
          .group = 0};
}

template <class Type>
constexpr FormatKernels dense_format() {
  return format_without_codes(dequantize_dense<Type>, dot_dense<Type>, 4);
}
template <class Row>
constexpr FormatKernels plain_format() {
  return format_without_codes(dequantize<Row>, dot_plain<Row>, 1);
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
