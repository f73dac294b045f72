// Rows for weights that MLX has quantised: mlx/ops.h, and our own beside them. MLX's functions
// leave to the caller that the shapes of scales fit those of codes and that indices lie within;
// this is checked here.
#include <limits>
#include <numeric>
#include <sstream>
#include <string>

#include "core/errors.h"
#include "kernels/cpu/quantized_primitives.h"
#include "mlx/ops.h"
#include "ops/indices.h"
#include "ops/products.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using Arrays = std::vector<array>;
using Maybe = std::optional<array>;
using MaybeInt = std::optional<int>;
using S = mx::StreamOrDevice;

// ---- formats ----

struct Quantization {
  std::string mode;
  int group;
  int bits;

  bool affine() const { return mode == "affine"; }
};

Quantization quantization(MaybeInt group, MaybeInt bits, const std::string& mode) {
  if (mode == "affine") {
    const Quantization given{mode, group.value_or(64), bits.value_or(4)};
    const bool known = given.bits >= 2 && given.bits <= 8 && given.bits != 7 &&
                       (given.group == 32 || given.group == 64 || given.group == 128);
    if (known) return given;
    throw CodedError("DTYPE",
                     "affine weights have 2, 3, 4, 5, 6 or 8 bits, in groups of 32, 64 or 128");
  }
  const bool fp4 = mode == "mxfp4" || mode == "nvfp4";
  if (!fp4 && mode != "mxfp8") {
    throw CodedError("DTYPE", "mode has to be 'affine', 'mxfp4', 'nvfp4' or 'mxfp8'");
  }
  const Quantization only{mode, mode == "nvfp4" ? 16 : 32, fp4 ? 4 : 8};
  if (group.value_or(only.group) == only.group && bits.value_or(only.bits) == only.bits)
    return only;
  throw CodedError("DTYPE", mode + " weights have " + std::to_string(only.bits) +
                                " bits, in groups of " + std::to_string(only.group));
}

std::optional<cpu::WeightFormat> format_of(const Quantization& q, const mx::Dtype& scales) {
  using enum cpu::WeightFormat;
  if (!q.affine()) {
    if (scales != mx::uint8) return std::nullopt;
    return q.mode == "mxfp4" ? Mxfp4 : q.mode == "nvfp4" ? Nvfp4 : Mxfp8;
  }
  const cpu::WeightFormat first = q.bits == 2   ? Affine2_F32
                                  : q.bits == 3 ? Affine3_F32
                                  : q.bits == 4 ? Affine4_F32
                                  : q.bits == 5 ? Affine5_F32
                                  : q.bits == 6 ? Affine6_F32
                                                : Affine8_F32;
  const int type = scales == mx::float32    ? 0
                   : scales == mx::float16  ? 1
                   : scales == mx::bfloat16 ? 2
                                            : -1;
  if (type < 0) return std::nullopt;
  return static_cast<cpu::WeightFormat>(static_cast<int>(first) + type);
}

std::string text(const mx::Shape& shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

// MLX divides by these without looking at them.
Arrays quantize(const array& w, MaybeInt group_size, MaybeInt bits, const std::string& mode,
                const Maybe& global_scale, S s) {
  const Quantization q = quantization(group_size, bits, mode);
  return mx::quantize(w, q.group, q.bits, mode, global_scale, s);
}
array dequantize(const array& w, const array& scales, const Maybe& biases, MaybeInt group_size,
                 MaybeInt bits, const std::string& mode, const Maybe& global_scale,
                 std::optional<mx::Dtype> dtype, S s) {
  const Quantization q = quantization(group_size, bits, mode);
  return mx::dequantize(w, scales, biases, q.group, q.bits, mode, global_scale, dtype, s);
}

// What MLX reads without a look at it: codes in rows of whole groups, and scales and biases for
// each.
void check_weights(const array& w, const array& scales, const Maybe& biases,
                   const Quantization& q) {
  if (w.dtype() != mx::uint32) throw CodedError("DTYPE", "w has to be uint32, as by quantize()");
  if (q.affine() != biases.has_value()) {
    throw CodedError("SHAPE", q.affine() ? "affine weights need biases"
                                         : "weights of mode '" + q.mode + "' have no biases");
  }
  if (w.ndim() < 2) throw CodedError("SHAPE", "w has to have at least 2 axes");
  mx::Shape wanted = w.shape();
  const int64_t bits = int64_t{w.shape(-1)} * 32;
  wanted.back() = static_cast<int>(bits / q.bits / q.group);
  if (bits % (int64_t{q.bits} * q.group) != 0 || scales.shape() != wanted) {
    throw CodedError("SHAPE", "for codes of shape " + text(w.shape()) + ", with " +
                                  std::to_string(q.bits) + " bits and groups of " +
                                  std::to_string(q.group) + ", scales have to have shape " +
                                  text(wanted));
  }
  if (biases && biases->shape() != wanted) {
    throw CodedError("SHAPE", "biases have to have the shape of scales, " + text(wanted));
  }
}

// Rows of checked weights as our kernels know them: those of a matrix [N, K], or of matrices [E, N,
// K]. Nothing where MLX has to do or to refuse it.
std::optional<cpu::WeightArrays> kernel_weights(const array& w, const array& scales,
                                                const Maybe& biases, const Quantization& q, S s) {
  const auto format = format_of(q, scales.dtype());
  const int64_t depth = int64_t{w.shape(-1)} * 32 / q.bits;
  const bool fits = w.size() > 0 && depth % 32 == 0 && depth <= std::numeric_limits<int>::max();
  if (!format || !fits || (biases && biases->dtype() != scales.dtype())) return std::nullopt;
  cpu::WeightArrays weights{*format, {w, scales}, static_cast<int>(depth)};
  if (biases) weights.arrays.push_back(*biases);
  if (q.affine()) weights.group_shift = q.group == 32 ? 0 : q.group == 64 ? 1 : 2;
  if (w.ndim() > 3) {
    for (array& a : weights.arrays) a = mx::flatten(a, 0, -3, s);
  }
  return weights;
}

bool is_activation(const array& x) {
  return x.size() > 0 &&
         (x.dtype() == mx::float32 || x.dtype() == mx::float16 || x.dtype() == mx::bfloat16);
}

// The type that MLX gives to products.
mx::Dtype product_type(const array& x, const array& scales, const Quantization& q) {
  return q.affine() ? mx::promote_types(x.dtype(), scales.dtype()) : x.dtype();
}

// Dequantised weights in float32: codes, scales and biases from `first` on.
array dense(const Arrays& in, size_t first, const Quantization& q, S s) {
  const array scales = q.affine() ? mx::astype(in[first + 1], mx::float32, s) : in[first + 1];
  const Maybe biases = q.affine() ? Maybe(mx::astype(in[first + 2], mx::float32, s)) : std::nullopt;
  return mx::dequantize(in[first], scales, biases, q.group, q.bits, q.mode, std::nullopt,
                        mx::float32, s);
}
size_t arrays_of(const Quantization& q) { return q.affine() ? 3 : 2; }

// ---- products ----

// What MLX has made of x and w. It divides by their sizes, so it must not compute what is empty.
array computable(const array& product, const array& x, const array& w, S s) {
  const bool empty = x.size() == 0 || w.size() == 0;
  return empty ? mx::zeros(product.shape(), product.dtype(), s) : product;
}

array quantized_linear(const array& x, const array& w, const array& scales, const Maybe& biases,
                       const Maybe& bias, MaybeInt group_size, MaybeInt bits,
                       const std::string& mode, const std::string& precision_name, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const Quantization q = quantization(group_size, bits, mode);
  const cpu::Precision precision = precision_named(precision_name);
  check_weights(w, scales, biases, q);
  if (bias) {
    if (w.ndim() != 2) throw CodedError("SHAPE", "w has to have 2 axes");
    check_bias(bias, w);
  }
  if (x.ndim() == 0) throw CodedError("SHAPE", "x has to have at least 1 axis");
  const auto weights = w.ndim() == 2 ? kernel_weights(w, scales, biases, q, stream) : std::nullopt;
  const bool ours = stream.device == mx::Device::cpu && weights && is_activation(x) &&
                    x.shape(-1) == weights->depth && (!bias || is_activation(*bias));
  if (!ours) {
    const array product = computable(
        mx::quantized_matmul(x, w, scales, biases, true, q.group, q.bits, mode, s), x, w, s);
    return bias ? mx::add(product, *bias, s) : product;
  }
  // Not MLX's quantized_matmul, which has no vmap.
  auto composed = [q, stream](const Arrays& in) {
    const array product = mx::matmul(in[0], mx::transpose(dense(in, 1, q, stream), stream), stream);
    const size_t bias_at = 1 + arrays_of(q);
    return Arrays{in.size() > bias_at ? mx::add(product, in[bias_at], stream) : product};
  };
  mx::Dtype dtype = product_type(x, scales, q);
  if (bias) dtype = mx::promote_types(dtype, bias->dtype());
  const Maybe bias32 = bias ? Maybe(in_float32(*bias, stream)) : std::nullopt;
  return mx::astype(cpu::quantized_linear(in_float32(x, stream), *weights, bias32, precision,
                                          std::move(composed), stream),
                    dtype, stream);
}

array quantized_matmul(const array& x, const array& w, const array& scales, const Maybe& biases,
                       bool transpose, MaybeInt group_size, MaybeInt bits, const std::string& mode,
                       const std::string& precision, S s) {
  if (transpose) {
    return quantized_linear(x, w, scales, biases, std::nullopt, group_size, bits, mode, precision,
                            s);
  }
  const Quantization q = quantization(group_size, bits, mode);
  precision_named(precision);
  check_weights(w, scales, biases, q);
  if (x.ndim() == 0) throw CodedError("SHAPE", "x has to have at least 1 axis");
  return computable(mx::quantized_matmul(x, w, scales, biases, false, q.group, q.bits, mode, s), x,
                    w, s);
}

// ---- products of matrices that indices name ----

// The number of matrices in x.
int matrices_of(const array& x) {
  return std::accumulate(x.shape().begin(), x.shape().end() - 2, 1, std::multiplies<int>());
}

// The indices that MLX takes where none are given: all matrices of x, in their own axes.
array indices_of(const array& x, S s) {
  return mx::reshape(mx::arange(matrices_of(x), mx::int64, s),
                     mx::Shape(x.shape().begin(), x.shape().end() - 2), s);
}

// For MLX, which reads where unsigned indices point: those from the end counted from the start.
Maybe counted(const Maybe& indices, int size, S s) {
  if (!indices || mx::issubdtype(indices->dtype(), mx::unsignedinteger)) return indices;
  const array negative = mx::less(*indices, array(0, indices->dtype()), s);
  return mx::where(negative, mx::add(*indices, array(size, indices->dtype()), s), *indices, s);
}

array gather_qmm(const array& x, const array& w, const array& scales, const Maybe& biases,
                 const Maybe& lhs, const Maybe& rhs, bool transpose, MaybeInt group_size,
                 MaybeInt bits, const std::string& mode, const Maybe& global_scale, bool sorted,
                 const std::string& precision_name, S s) {
  if (!lhs && !rhs && !global_scale) {
    return quantized_matmul(x, w, scales, biases, transpose, group_size, bits, mode, precision_name,
                            s);
  }
  const mx::Stream stream = mx::to_stream(s);
  const Quantization q = quantization(group_size, bits, mode);
  const cpu::Precision precision = precision_named(precision_name);
  check_weights(w, scales, biases, q);
  if (x.ndim() < 2) throw CodedError("SHAPE", "x has to have at least 2 axes");
  if (lhs) check_indices("gatherQmm", *lhs, static_cast<size_t>(matrices_of(x)), s);
  if (rhs) check_indices("gatherQmm", *rhs, static_cast<size_t>(matrices_of(w)), s);
  const auto weights = transpose && !global_scale && stream.device == mx::Device::cpu
                           ? kernel_weights(w, scales, biases, q, stream)
                           : std::nullopt;
  if (!weights || !is_activation(x) || x.shape(-1) != weights->depth) {
    const array product = mx::gather_qmm(x, w, scales, biases, counted(lhs, matrices_of(x), s),
                                         counted(rhs, matrices_of(w), s), transpose, q.group,
                                         q.bits, mode, global_scale, sorted, s);
    return computable(product, x, w, s);
  }
  const Arrays pairs =
      mx::broadcast_arrays({lhs ? mx::astype(*lhs, mx::int64, s) : indices_of(x, s),
                            rhs ? mx::astype(*rhs, mx::int64, s) : indices_of(w, s)},
                           s);
  mx::Shape shape = pairs[0].shape();
  shape.insert(shape.end(), {x.shape(-2), w.shape(-2)});
  const mx::Dtype dtype = product_type(x, scales, q);
  if (pairs[0].size() == 0) return mx::zeros(shape, dtype, s);
  auto composed = [q, stream](const Arrays& in) {
    const size_t count = arrays_of(q);
    const array& right = in[1 + count];
    Arrays chosen;
    for (size_t i = 1; i <= count; ++i) chosen.push_back(mx::take(in[i], right, 0, stream));
    return Arrays{mx::matmul(mx::take(in[0], in[2 + count], 0, stream),
                             mx::swapaxes(dense(chosen, 0, q, stream), 1, 2, stream), stream)};
  };
  cpu::WeightArrays matrices = *weights;
  if (w.ndim() == 2) {
    for (array& a : matrices.arrays) a = mx::expand_dims(a, 0, s);
  }
  const array blocks =
      mx::reshape(in_float32(x, stream), {matrices_of(x), x.shape(-2), x.shape(-1)}, s);
  const array products = cpu::quantized_gather_linear(blocks, matrices, mx::flatten(pairs[0], s),
                                                      mx::flatten(pairs[1], s), precision,
                                                      std::move(composed), stream);
  return mx::astype(mx::reshape(products, shape, s), dtype, s);
}

// ---- embeddings ----

array quantized_take(const array& w, const array& scales, const Maybe& biases, const array& ids,
                     MaybeInt group_size, MaybeInt bits, const std::string& mode, S s) {
  const mx::Stream stream = mx::to_stream(s);
  const Quantization q = quantization(group_size, bits, mode);
  check_weights(w, scales, biases, q);
  if (w.ndim() != 2) throw CodedError("SHAPE", "w has to have 2 axes");
  if (w.shape(-1) % q.bits != 0) {  // of MLX's functions, either
    throw CodedError("SHAPE", "rows of w have to have a multiple of 32 weights");
  }
  check_indices("quantizedTake", ids, static_cast<size_t>(w.shape(0)), s);
  mx::Shape shape = ids.shape();
  shape.push_back(static_cast<int>(int64_t{w.shape(-1)} * 32 / q.bits));
  if (ids.size() == 0) return mx::zeros(shape, mx::float32, s);
  auto composed = [q, stream](const Arrays& in) {
    const array rows = mx::reshape(in.back(), {-1}, stream);
    Arrays taken;
    for (size_t i = 0; i < arrays_of(q); ++i) taken.push_back(mx::take(in[i], rows, 0, stream));
    mx::Shape each = in.back().shape();
    each.push_back(-1);
    return Arrays{mx::reshape(dense(taken, 0, q, stream), each, stream)};
  };
  const array indices = mx::astype(ids, mx::int64, stream);
  if (const auto weights = kernel_weights(w, scales, biases, q, stream)) {
    return cpu::quantized_take_rows(*weights, indices, std::move(composed), stream);
  }
  Arrays inputs{w, scales};
  if (biases) inputs.push_back(*biases);
  inputs.push_back(indices);
  return composed(inputs)[0];
}

}  // namespace

std::vector<Op> quantized_rows() {
  return {
      op("quantize",
         "Codes, scales and, in mode 'affine', biases of w, quantised along its last axis. Modes: "
         "'affine' (2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128), 'mxfp4', 'nvfp4', 'mxfp8'.",
         quantize, arg("w"), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("globalScale", none)),
      op("dequantize", "What quantize() has made of w.", dequantize, arg("w"), arg("scales"),
         opt("biases", none), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("globalScale", none), opt("dtype", none)),
      op("quantizedMatmul",
         "x · wᵀ, or x · w unless transpose, for w as quantize() gives it. On the CPU x · wᵀ is "
         "computed in float32 whatever x is; there precision 'fast' rounds x to 8 bits per group "
         "of 32 first, see blockLinear, save in mode 'mxfp8', which knows 'exact' only.",
         quantized_matmul, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("transpose", true), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("precision", "exact")),
      op("quantizedLinear",
         "x · wᵀ + bias for w [N, K] as quantize() gives it: see quantizedMatmul.",
         quantized_linear, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("bias", none), opt("groupSize", none), opt("bits", none), opt("mode", "affine"),
         opt("precision", "exact")),
      op("quantizedTake", "Rows of w [N, K] as quantize() gives it, in float32 [..., K].",
         quantized_take, arg("w"), arg("scales"), opt("biases", none), arg("ids"),
         opt("groupSize", none), opt("bits", none), opt("mode", "affine")),
      op("gatherQmm",
         "quantizedMatmul of the matrices of x and w that the indices name. On the CPU rows that "
         "meet the same matrix of w are multiplied together, sorted or not.",
         gather_qmm, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("lhsIndices", none), opt("rhsIndices", none), opt("transpose", true),
         opt("groupSize", none), opt("bits", none), opt("mode", "affine"), opt("globalScale", none),
         opt("sortedIndices", false), opt("precision", "exact")),
  };
}

}  // namespace mlx_runners
