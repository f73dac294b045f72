// Rows of our own for weights in blocks, as GGUF files have them.
#include <string>

#include "core/errors.h"
#include "kernels/cpu/quantized_primitives.h"
#include "mlx/ops.h"
#include "ops/indices.h"
#include "ops/products.h"
#include "ops/rows.h"
#include "quant/block_arrays.h"
#include "quant/quantize.h"

namespace mlx_runners {
namespace {

using mx::array;
using Arrays = std::vector<array>;
using Maybe = std::optional<array>;
using MaybeArrays = std::optional<Arrays>;
using S = mx::StreamOrDevice;

array block_dequantize(const array& blocks, const std::string& format, S s) {
  return dequantized(blocks, format_named(format), s);
}
array block_dequantize_on_cpu(const array& blocks, const std::string& format, S s) {
  return dequantized_on_cpu(blocks, format_named(format), s);
}
array block_quantize(const array& w, const std::string& format, S s) {
  check_float("w", w);
  return quantized(w, format_named(format), s);
}

// w as rows of whole blocks, with `axes` axes.
cpu::WeightArrays block_weights(const array& w, BlockFormat format, size_t axes) {
  const mx::Shape shape = dequantized_shape("w", w, format);
  if (w.ndim() != axes) {
    throw CodedError("SHAPE", "w has to have " + std::to_string(axes) + " axes");
  }
  return {static_cast<cpu::WeightFormat>(format), {w}, shape.back()};
}

Arrays block_linears(const array& x, const Arrays& ws, const std::string& format_name,
                     const MaybeArrays& biases, const std::string& precision, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  check_lists(ws, {{"biases", biases}});
  std::vector<cpu::WeightArrays> weights;
  Arrays added;
  for (size_t i = 0; i < ws.size(); ++i) {
    weights.push_back(block_weights(ws[i], format, 2));
    check_rows(x, weights.back().depth);
    if (!biases) continue;
    check_bias((*biases)[i], ws[i]);
    added.push_back(factor_in_float32("bias", (*biases)[i], stream));
  }
  auto composed = [format, stream](const Arrays& in) {
    const array columns = mx::transpose(dequantized(in[1], format, stream), stream);
    const array product = mx::matmul(in[0], columns, stream);
    return Arrays{in.size() > 2 ? mx::add(product, in[2], stream) : product};
  };
  return cpu::quantized_linears(factor_in_float32("x", x, stream), weights, added,
                                precision_named(precision), std::move(composed), stream);
}
array block_linear(const array& x, const array& w, const std::string& format, const Maybe& bias,
                   const std::string& precision, S s) {
  const MaybeArrays biases = bias ? MaybeArrays({*bias}) : std::nullopt;
  return block_linears(x, {w}, format, biases, precision, s)[0];
}

array block_take(const array& w, const array& ids, const std::string& format_name, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  const cpu::WeightArrays weights = block_weights(w, format, 2);
  check_indices("blockTake", ids, static_cast<size_t>(w.shape(0)), s);
  if (w.size() == 0) {
    mx::Shape shape = ids.shape();
    shape.push_back(weights.depth);
    return mx::zeros(shape, mx::float32, s);
  }
  auto composed = [format, stream](const Arrays& in) {
    return Arrays{dequantized(mx::take(in[0], in[1], 0, stream), format, stream)};
  };
  return cpu::quantized_take_rows(weights, mx::astype(ids, mx::int64, stream), std::move(composed),
                                  stream);
}

array block_gather_linear(const array& x, const array& w, const array& ids,
                          const std::string& format_name, const std::string& precision, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  const cpu::WeightArrays weights = block_weights(w, format, 3);
  check_rows(x, weights.depth);
  check_indices("blockGatherLinear", ids, static_cast<size_t>(w.shape(0)), s);
  mx::Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape = mx::broadcast_shapes(shape, ids.shape());
  const array matrices = mx::broadcast_to(mx::astype(ids, mx::int64, stream), shape, stream);
  shape.push_back(weights.depth);
  const array rows = mx::broadcast_to(factor_in_float32("x", x, stream), shape, stream);
  shape.back() = w.shape(1);
  if (w.size() == 0) return mx::zeros(shape, mx::float32, s);
  const auto count = static_cast<int>(matrices.size());
  auto composed = [format, stream](const Arrays& in) {
    const array chosen = dequantized(mx::take(in[1], in[2], 0, stream), format, stream);
    return Arrays{mx::matmul(in[0], mx::swapaxes(chosen, 1, 2, stream), stream)};
  };
  const array products =
      cpu::quantized_gather_linear(mx::reshape(rows, {count, 1, weights.depth}, stream), weights,
                                   std::nullopt, mx::reshape(matrices, {count}, stream),
                                   precision_named(precision), std::move(composed), stream);
  return mx::reshape(products, shape, stream);
}

}  // namespace

std::vector<Op> block_rows() {
  return {
      op("blockQuantize",
         "The blocks, uint8 [..., bytes of a row], of weights [..., K], float32, float16 or "
         "bfloat16, in a GGUF format: F32, F16, "
         "BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K. K has to be a multiple of 32, "
         "for the K types of 256.",
         block_quantize, arg("w"), arg("format")),
      op("blockDequantize",
         "The weights, float32 [..., K], of blocks in a GGUF format: see blockQuantize. Here, and "
         "wherever blocks are taken, those of F32, F16 and BF16 may also be the numbers they are: "
         "[..., K] of float32, float16 and bfloat16, as loadGguf gives them.",
         block_dequantize, arg("blocks"), arg("format"))
          .on_cpu(block_dequantize_on_cpu),
      op("blockLinear",
         "x · wᵀ + bias, float32 [..., N], for x [..., K] and blocks w, uint8 [N, bytes of a row], "
         "in a GGUF format: see blockQuantize and blockDequantize. precision 'exact' computes in "
         "float32; 'fast' rounds x to 8 bits per "
         "group of 32 first, which changes a result by at most the sum over groups of max|x| / 254 "
         "· Σ|w|. Unrounded where w is F32, F16 or BF16.",
         block_linear, arg("x"), arg("w"), arg("format"), opt("bias", none),
         opt("precision", "exact").one_of(precisions)),
      op("blockLinears",
         "blockLinear of x with each of several matrices, all of one format and depth, such as the "
         "projections to queries, keys and values: as many results, each as blockLinear gives it, "
         "in one pass over x. `biases` are as many as matrices, or none.",
         block_linears, arg("x"), arg("w"), arg("format"), opt("biases", none),
         opt("precision", "exact").one_of(precisions)),
      op("blockTake", "Rows of blocks w [N, bytes of a row] as float32 [..., K].", block_take,
         arg("w"), arg("ids"), arg("format")),
      op("blockGatherLinear",
         "blockLinear of each row of x [..., K] with the matrix of w [E, N, bytes of a row] that "
         "ids [...] names; the axes of ids and those of x before the last broadcast.",
         block_gather_linear, arg("x"), arg("w"), arg("ids"), arg("format"),
         opt("precision", "exact").one_of(precisions)),
  };
}

}  // namespace mlx_runners
