// Rows of mlx/ops.h for quantised weights, and our own for weights in blocks as GGUF files have
// them.
#include <string>

#include "core/errors.h"
#include "kernels/cpu/quantized_primitives.h"
#include "mlx/ops.h"
#include "ops/indices.h"
#include "ops/rows.h"
#include "quant/block_arrays.h"
#include "quant/quantize.h"

namespace mlx_runners {
namespace {

using mx::array;
using Maybe = std::optional<array>;
using S = mx::StreamOrDevice;

// ---- MLX's formats ----

std::optional<cpu::WeightFormat> affine_format(int bits, const mx::Dtype& scales) {
  using cpu::WeightFormat;
  const bool four = bits == 4;
  if (scales == mx::float32) return four ? WeightFormat::Affine4_F32 : WeightFormat::Affine8_F32;
  if (scales == mx::float16) return four ? WeightFormat::Affine4_F16 : WeightFormat::Affine8_F16;
  if (scales == mx::bfloat16) return four ? WeightFormat::Affine4_BF16 : WeightFormat::Affine8_BF16;
  return std::nullopt;
}

// The weights as our kernels know them; nothing for what MLX has to do or to refuse.
std::optional<cpu::WeightArrays> affine_weights(const array& x, const array& w, const array& scales,
                                                const Maybe& biases, bool transpose, int group_size,
                                                int bits, const std::string& mode) {
  const bool known = mode == "affine" && transpose && (bits == 4 || bits == 8) &&
                     (group_size == 32 || group_size == 64 || group_size == 128);
  if (!known || !biases || w.ndim() != 2 || scales.ndim() != 2 || w.dtype() != mx::uint32 ||
      x.ndim() == 0 || x.size() == 0 || w.size() == 0) {
    return std::nullopt;
  }
  const int depth = x.shape(-1);
  const auto format = affine_format(bits, scales.dtype());
  const bool fits = int64_t{w.shape(1)} * 32 == int64_t{depth} * bits &&
                    scales.shape() == mx::Shape{w.shape(0), depth / group_size} &&
                    depth % group_size == 0 && biases->shape() == scales.shape() &&
                    biases->dtype() == scales.dtype();
  if (!format || !fits) return std::nullopt;
  const int shift = group_size == 32 ? 0 : group_size == 64 ? 1 : 2;
  return cpu::WeightArrays{*format, {w, scales, *biases}, depth, shift};
}

array quantized_matmul_on_cpu(const array& x, const array& w, const array& scales,
                              const Maybe& biases, bool transpose, std::optional<int> group_size,
                              std::optional<int> bits, const std::string& mode, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const auto weights = affine_weights(x, w, scales, biases, transpose, group_size.value_or(64),
                                      bits.value_or(4), mode);
  if (!weights || x.dtype() != mx::float32) {
    return mx::quantized_matmul(x, w, scales, biases, transpose, group_size, bits, mode, s);
  }
  auto composed = [group_size, bits, mode, stream](const std::vector<array>& in) {
    return std::vector<array>{
        mx::quantized_matmul(in[0], in[1], in[2], in[3], true, group_size, bits, mode, stream)};
  };
  return cpu::quantized_linear(x, *weights, std::nullopt, cpu::Precision::kExact,
                               std::move(composed), stream);
}

// ---- blocks ----

cpu::Precision precision_named(const std::string& name) {
  if (name == "exact") return cpu::Precision::kExact;
  if (name == "fast") return cpu::Precision::kFast;
  throw CodedError("DTYPE", "precision has to be 'exact' or 'fast'");
}

// w as rows of whole blocks, with `axes` axes.
cpu::WeightArrays block_weights(const array& w, BlockFormat format, size_t axes) {
  const auto [weights, bytes] = block_size(format);
  if (w.dtype() != mx::uint8) throw CodedError("DTYPE", "blocks are uint8, as bytes of a file");
  if (w.ndim() != axes || w.size() == 0 || w.shape(-1) % bytes != 0) {
    throw CodedError("SHAPE", "w has to have " + std::to_string(axes) +
                                  " axes, the last of whole blocks: those of " +
                                  std::string(name_of(format)) + " have " + std::to_string(bytes) +
                                  " bytes");
  }
  return {static_cast<cpu::WeightFormat>(format), {w}, w.shape(-1) / bytes * weights};
}

void check_rows(const array& x, const cpu::WeightArrays& w) {
  if (x.ndim() == 0 || x.shape(-1) != w.depth) {
    throw CodedError("SHAPE", "the last axis of x has to have the weights of a row of w, " +
                                  std::to_string(w.depth));
  }
}

array block_linear(const array& x, const array& w, const std::string& format_name,
                   const Maybe& bias, const std::string& precision, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  const cpu::WeightArrays weights = block_weights(w, format, 2);
  check_rows(x, weights);
  if (bias && bias->shape() != mx::Shape{w.shape(0)}) {
    throw CodedError("SHAPE",
                     "bias has to have one number per row of w, " + std::to_string(w.shape(0)));
  }
  auto composed = [format, stream](const std::vector<array>& in) {
    const array columns = mx::transpose(dequantized(in[1], format, stream), stream);
    const array product = mx::matmul(in[0], columns, stream);
    return std::vector<array>{in.size() > 2 ? mx::add(product, in[2], stream) : product};
  };
  return cpu::quantized_linear(x, weights, bias, precision_named(precision), std::move(composed),
                               stream);
}

array block_take(const array& w, const array& ids, const std::string& format_name, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  const cpu::WeightArrays weights = block_weights(w, format, 2);
  check_indices("blockTake", ids, static_cast<size_t>(w.shape(0)), s);
  auto composed = [format, stream](const std::vector<array>& in) {
    return std::vector<array>{dequantized(mx::take(in[0], in[1], 0, stream), format, stream)};
  };
  return cpu::quantized_take_rows(weights, mx::astype(ids, mx::int64, stream), std::move(composed),
                                  stream);
}

array block_gather_linear(const array& x, const array& w, const array& ids,
                          const std::string& format_name, const std::string& precision, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const BlockFormat format = format_named(format_name);
  const cpu::WeightArrays weights = block_weights(w, format, 3);
  check_rows(x, weights);
  check_indices("blockGatherLinear", ids, static_cast<size_t>(w.shape(0)), s);
  mx::Shape shape(x.shape().begin(), x.shape().end() - 1);
  shape = mx::broadcast_shapes(shape, ids.shape());
  const auto rows = [&](const array& a, bool depth) {
    mx::Shape whole = shape;
    if (depth) whole.push_back(weights.depth);
    const array all = mx::broadcast_to(a, whole, stream);
    return mx::reshape(all, depth ? mx::Shape{-1, weights.depth} : mx::Shape{-1}, stream);
  };
  auto composed = [format, stream](const std::vector<array>& in) {
    const array chosen = dequantized(mx::take(in[1], in[2], 0, stream), format, stream);
    const array products =
        mx::matmul(mx::expand_dims(in[0], 1, stream), mx::swapaxes(chosen, 1, 2, stream), stream);
    return std::vector<array>{mx::squeeze(products, 1, stream)};
  };
  const array products = cpu::quantized_gather_linear(
      rows(x, true), weights, rows(mx::astype(ids, mx::int64, stream), false),
      precision_named(precision), std::move(composed), stream);
  shape.push_back(w.shape(1));
  return mx::reshape(products, shape, stream);
}

}  // namespace

std::vector<Op> quantized_rows() {
  return {
      op("quantize",
         "Codes, scales and, in mode 'affine', biases of w, quantised along its last axis. Modes: "
         "'affine' (2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128), 'mxfp4', 'nvfp4', 'mxfp8'.",
         mx::quantize, arg("w"), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("globalScale", none)),
      op("dequantize", "What quantize() has made of w.", mx::dequantize, arg("w"), arg("scales"),
         opt("biases", none), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("globalScale", none), opt("dtype", none)),
      op("quantizedMatmul",
         "x · wᵀ, or x · w unless transpose, for w as quantize() gives it. Fast on the CPU for x "
         "of float32 and affine w of 4 or 8 bits.",
         mx::quantized_matmul, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("transpose", true), opt("groupSize", none), opt("bits", none), opt("mode", "affine"))
          .on_cpu(quantized_matmul_on_cpu),
      op("gatherQmm", "quantizedMatmul of the matrices of x and w that the indices name.",
         mx::gather_qmm, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("lhsIndices", none), opt("rhsIndices", none), opt("transpose", true),
         opt("groupSize", none), opt("bits", none), opt("mode", "affine"), opt("globalScale", none),
         opt("sortedIndices", false)),
      op("blockLinear",
         "x · wᵀ + bias for x [..., K] and blocks w, uint8 [N, bytes of a row], in a GGUF format: "
         "see blockQuantize. precision 'exact' computes in float32; 'fast' rounds x to 8 bits per "
         "group of 32 first, which changes a result by at most the sum over groups of max|x| / 254 "
         "· Σ|w|. Unrounded where w is F32, F16 or BF16.",
         block_linear, arg("x"), arg("w"), arg("format"), opt("bias", none),
         opt("precision", "exact")),
      op("blockTake", "Rows of blocks w [N, bytes of a row] as float32 [..., K].", block_take,
         arg("w"), arg("ids"), arg("format")),
      op("blockGatherLinear",
         "blockLinear of each row of x [..., K] with the matrix of w [E, N, bytes of a row] that "
         "ids [...] names; the axes of ids and those of x before the last broadcast.",
         block_gather_linear, arg("x"), arg("w"), arg("ids"), arg("format"),
         opt("precision", "exact")),
  };
}

}  // namespace mlx_runners
