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
using MaybeArrays = std::optional<Arrays>;
using MaybeInt = std::optional<int>;
using S = mx::StreamOrDevice;

// ---- formats ----

constexpr const char* modes = "affine|mxfp4|nvfp4|mxfp8";

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
  const bool fp4 = mode != "mxfp8";
  const Quantization only{mode, mode == "nvfp4" ? 16 : 32, fp4 ? 4 : 8};
  if (group.value_or(only.group) == only.group && bits.value_or(only.bits) == only.bits)
    return only;
  throw CodedError("DTYPE", mode + " weights have " + std::to_string(only.bits) +
                                " bits, in groups of " + std::to_string(only.group));
}

cpu::WeightFormat format_of(const Quantization& q, const mx::Dtype& scales) {
  using enum cpu::WeightFormat;
  if (!q.affine()) {
    return q.mode == "mxfp4" ? Mxfp4 : q.mode == "nvfp4" ? Nvfp4 : Mxfp8;
  }
  const cpu::WeightFormat first = q.bits == 2   ? Affine2_F32
                                  : q.bits == 3 ? Affine3_F32
                                  : q.bits == 4 ? Affine4_F32
                                  : q.bits == 5 ? Affine5_F32
                                  : q.bits == 6 ? Affine6_F32
                                                : Affine8_F32;
  const int type = scales == mx::float32 ? 0 : scales == mx::float16 ? 1 : 2;
  return static_cast<cpu::WeightFormat>(static_cast<int>(first) + type);
}

std::string text(const mx::Shape& shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

int depth_of(const array& w, const Quantization& q) {
  const int64_t depth = int64_t{w.shape(-1)} * 32 / q.bits;
  if (depth <= std::numeric_limits<int>::max()) return static_cast<int>(depth);
  throw CodedError("SHAPE", "rows would have " + std::to_string(depth) + " weights");
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
  if (q.affine()) {
    check_float("scales", scales);
    check_float("biases", *biases);
  } else if (scales.dtype() != mx::uint8) {
    throw CodedError("DTYPE", "scales of mode '" + q.mode + "' have to be uint8");
  }
  if (w.ndim() < 2) throw CodedError("SHAPE", "w has to have at least 2 axes");
  const std::string packing =
      std::to_string(q.bits) + " bits and groups of " + std::to_string(q.group);
  const int64_t bits = int64_t{w.shape(-1)} * 32;
  const int64_t group_bits = int64_t{q.bits} * q.group;
  if (bits % group_bits != 0) {
    throw CodedError("SHAPE", "rows of w, of " + std::to_string(w.shape(-1)) +
                                  " numbers of 32 bits, don't hold whole groups: with " + packing +
                                  " these have " + std::to_string(group_bits / 32) +
                                  "; other groupSize or bits were meant");
  }
  mx::Shape wanted = w.shape();
  wanted.back() = static_cast<int>(bits / group_bits);
  if (scales.shape() != wanted) {
    throw CodedError("SHAPE", "for codes of shape " + text(w.shape()) + ", with " + packing +
                                  ", scales have to have shape " + text(wanted));
  }
  if (biases && biases->shape() != wanted) {
    throw CodedError("SHAPE", "biases have to have the shape of scales, " + text(wanted));
  }
}

// MLX divides by these without looking at them.
Arrays quantize(const array& w, MaybeInt group_size, MaybeInt bits, const std::string& mode,
                const Maybe& global_scale, S s) {
  const Quantization q = quantization(group_size, bits, mode);
  check_float("w", w);
  return mx::quantize(w, q.group, q.bits, mode, global_scale, s);
}
array dequantize(const array& w, const array& scales, const Maybe& biases, MaybeInt group_size,
                 MaybeInt bits, const std::string& mode, const Maybe& global_scale,
                 std::optional<mx::Dtype> dtype, S s) {
  const Quantization q = quantization(group_size, bits, mode);
  if (w.size() == 0 && w.ndim() > 1) {  // MLX can't infer the shape of nothing
    check_weights(w, scales, biases, q);
    mx::Shape shape = w.shape();
    shape.back() = depth_of(w, q);
    const mx::Dtype own =
        q.affine() ? mx::promote_types(scales.dtype(), biases->dtype()) : mx::bfloat16;
    return mx::zeros(shape, dtype.value_or(own), s);
  }
  return mx::dequantize(w, scales, biases, q.group, q.bits, mode, global_scale, dtype, s);
}

// Rows of checked weights as our kernels know them: those of a matrix [N, K], or of matrices [E, N,
// K]. Nothing where MLX has to do or to refuse it.
std::optional<cpu::WeightArrays> kernel_weights(const array& w, const array& scales,
                                                const Maybe& biases, const Quantization& q, S s) {
  const int depth = depth_of(w, q);
  if (w.size() == 0 || depth % 32 != 0) return std::nullopt;
  if (biases && biases->dtype() != scales.dtype()) return std::nullopt;
  cpu::WeightArrays weights{format_of(q, scales.dtype()), {w, scales}, depth};
  if (biases) weights.arrays.push_back(*biases);
  if (q.affine()) weights.group_shift = q.group == 32 ? 0 : q.group == 64 ? 1 : 2;
  if (w.ndim() > 3) {
    for (array& a : weights.arrays) a = mx::flatten(a, 0, -3, s);
  }
  return weights;
}

// Whether products may be our kernels'.
bool may_be_ours(S s) {
  return mx::to_stream(s).device == mx::Device::cpu && !cpu::MlxPrimitivesOnly::active();
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

// A matrix of checked weights, and what is added to products with it.
struct Layer {
  array w;
  array scales;
  Maybe biases;
  Maybe bias;
};

array linear_by_mlx(const array& x, const Layer& layer, const Quantization& q, S s) {
  const auto& [w, scales, biases, bias] = layer;
  const array product = computable(
      mx::quantized_matmul(x, w, scales, biases, true, q.group, q.bits, q.mode, s), x, w, s);
  return bias ? mx::add(product, *bias, s) : product;
}

// All layers of x at once where our kernels know them, and they are of one format.
std::optional<std::vector<cpu::WeightArrays>> kernel_layers(const array& x,
                                                            const std::vector<Layer>& layers,
                                                            const Quantization& q,
                                                            const mx::Stream& stream) {
  if (!may_be_ours(stream) || x.size() == 0) return std::nullopt;
  std::vector<cpu::WeightArrays> all;
  for (const auto& [w, scales, biases, bias] : layers) {
    const auto weights =
        w.ndim() == 2 ? kernel_weights(w, scales, biases, q, stream) : std::nullopt;
    if (!weights || x.shape(-1) != weights->depth) return std::nullopt;
    if (!all.empty() && weights->format != all[0].format) return std::nullopt;
    all.push_back(*weights);
  }
  return all;
}

Arrays linears(const array& x, const std::vector<Layer>& layers, const Quantization& q,
               cpu::Precision precision, const mx::Stream& stream) {
  const auto weights = kernel_layers(x, layers, q, stream);
  Arrays results;
  if (!weights) {
    if (layers.size() == 1) return {linear_by_mlx(x, layers[0], q, stream)};
    for (const Layer& layer : layers) {
      results.push_back(linears(x, {layer}, q, precision, stream)[0]);
    }
    return results;
  }
  // Not MLX's quantized_matmul, which has no vmap.
  auto composed = [q, stream](const Arrays& in) {
    const array product = mx::matmul(in[0], mx::transpose(dense(in, 1, q, stream), stream), stream);
    const size_t bias_at = 1 + arrays_of(q);
    return Arrays{in.size() > bias_at ? mx::add(product, in[bias_at], stream) : product};
  };
  const auto wide = [&](const array& a) { return mx::astype(a, mx::float32, stream); };
  Arrays added;
  for (const Layer& layer : layers) {
    if (layer.bias) added.push_back(wide(*layer.bias));
  }
  const Arrays products =
      cpu::quantized_linears(wide(x), *weights, added, precision, std::move(composed), stream);
  for (size_t i = 0; i < layers.size(); ++i) {
    const mx::Dtype dtype = product_type(x, layers[i].scales, q);
    const Maybe& bias = layers[i].bias;
    results.push_back(
        mx::astype(products[i], bias ? mx::promote_types(dtype, bias->dtype()) : dtype, stream));
  }
  return results;
}

Arrays quantized_linears(const array& given, const Arrays& ws, const Arrays& scales,
                         const MaybeArrays& biases, const MaybeArrays& bias, MaybeInt group_size,
                         MaybeInt bits, const std::string& mode, const std::string& precision,
                         S s) {
  const mx::Stream stream = mx::to_stream(s);
  const Quantization q = quantization(group_size, bits, mode);
  check_lists(ws, {{"scales", scales}, {"biases", biases}, {"bias", bias}});
  const array x = factor("x", given, stream);
  std::vector<Layer> layers;
  for (size_t i = 0; i < ws.size(); ++i) {
    layers.push_back({ws[i], scales[i], biases ? Maybe((*biases)[i]) : std::nullopt,
                      bias ? Maybe(factor("bias", (*bias)[i], stream)) : std::nullopt});
    const Layer& layer = layers.back();
    check_weights(layer.w, layer.scales, layer.biases, q);
    if (!bias) continue;
    if (layer.w.ndim() != 2) throw CodedError("SHAPE", "w has to have 2 axes");
    check_bias(layer.bias, layer.w);
  }
  if (x.ndim() == 0) throw CodedError("SHAPE", "x has to have at least 1 axis");
  return linears(x, layers, q, precision_named(precision), stream);
}
array quantized_linear(const array& x, const array& w, const array& scales, const Maybe& biases,
                       const Maybe& bias, MaybeInt group_size, MaybeInt bits,
                       const std::string& mode, const std::string& precision, S s) {
  const auto listed = [](const Maybe& one) { return one ? MaybeArrays({*one}) : std::nullopt; };
  return quantized_linears(x, {w}, {scales}, listed(biases), listed(bias), group_size, bits, mode,
                           precision, s)[0];
}

array quantized_matmul(const array& given, const array& w, const array& scales, const Maybe& biases,
                       bool transpose, MaybeInt group_size, MaybeInt bits, const std::string& mode,
                       const std::string& precision, S s) {
  if (transpose) {
    return quantized_linear(given, w, scales, biases, std::nullopt, group_size, bits, mode,
                            precision, s);
  }
  const Quantization q = quantization(group_size, bits, mode);
  const array x = factor("x", given, mx::to_stream(s));
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

// MLX's own product, for which indices are counted from the start and brought inside, since it
// reads wherever they point; NaN where one that wasn't known at the call lay outside.
array gathered_by_mlx(const array& x, const array& w, const array& scales, const Maybe& biases,
                      const Maybe& lhs, const Maybe& rhs, bool transpose, const Quantization& q,
                      const Maybe& global_scale, bool sorted, S s) {
  Maybe fits;
  const auto inside = [&](const Maybe& indices, int size) -> Maybe {
    if (!indices) return indices;
    const auto number = [](int64_t value) { return array(value, mx::int64); };
    const array given = mx::astype(*indices, mx::int64, s);
    const array counted =
        mx::where(mx::less(given, number(0), s), mx::add(given, number(size), s), given, s);
    const array clipped = mx::clip(counted, number(0), number(size - 1), s);
    if (!is_known(*indices, s)) {
      const array same = mx::expand_dims(mx::equal(clipped, counted, s), {-2, -1}, s);
      fits = fits ? mx::logical_and(*fits, same, s) : same;
    }
    return clipped;
  };
  const Maybe left = inside(lhs, matrices_of(x));
  const Maybe right = inside(rhs, matrices_of(w));
  const array product = computable(mx::gather_qmm(x, w, scales, biases, left, right, transpose,
                                                  q.group, q.bits, q.mode, global_scale, sorted, s),
                                   x, w, s);
  if (!fits) return product;
  const array nan(std::numeric_limits<float>::quiet_NaN(), product.dtype());
  return mx::where(*fits, product, nan, s);
}

array gather_qmm(const array& unchecked_x, const array& w, const array& scales, const Maybe& biases,
                 const Maybe& lhs, const Maybe& rhs, bool transpose, MaybeInt group_size,
                 MaybeInt bits, const std::string& mode, const Maybe& global_scale, bool sorted,
                 const std::string& precision_name, S s) {
  if (!lhs && !rhs && !global_scale) {
    return quantized_matmul(unchecked_x, w, scales, biases, transpose, group_size, bits, mode,
                            precision_name, s);
  }
  const mx::Stream stream = mx::to_stream(s);
  const Quantization q = quantization(group_size, bits, mode);
  const cpu::Precision precision = precision_named(precision_name);
  const array x = factor("x", unchecked_x, stream);
  check_weights(w, scales, biases, q);
  if (x.ndim() < 2) throw CodedError("SHAPE", "x has to have at least 2 axes");
  if (lhs) check_indices("gatherQmm", *lhs, static_cast<size_t>(matrices_of(x)), s);
  if (rhs) check_indices("gatherQmm", *rhs, static_cast<size_t>(matrices_of(w)), s);
  const auto weights = transpose && !global_scale && may_be_ours(stream)
                           ? kernel_weights(w, scales, biases, q, stream)
                           : std::nullopt;
  if (!weights || x.size() == 0 || x.shape(-1) != weights->depth) {
    return gathered_by_mlx(x, w, scales, biases, lhs, rhs, transpose, q, global_scale, sorted, s);
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
      mx::reshape(mx::astype(x, mx::float32, s), {matrices_of(x), x.shape(-2), x.shape(-1)}, s);
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
  shape.push_back(depth_of(w, q));
  if (ids.size() == 0 || w.size() == 0) return mx::zeros(shape, mx::float32, s);
  auto composed = [q, stream](const Arrays& in) {
    const array rows = mx::reshape(in.back(), {-1}, stream);
    Arrays taken;
    for (size_t i = 0; i < arrays_of(q); ++i) taken.push_back(mx::take(in[i], rows, 0, stream));
    mx::Shape each = in.back().shape();
    each.push_back(-1);
    return Arrays{mx::reshape(dense(taken, 0, q, stream), each, stream)};
  };
  // Never by MLX, which reads wherever indices point.
  const bool mixed = biases && biases->dtype() != scales.dtype();
  const auto alike = [&](const array& a) { return mixed ? mx::astype(a, mx::float32, s) : a; };
  const auto weights =
      kernel_weights(w, alike(scales), biases ? Maybe(alike(*biases)) : biases, q, stream);
  return cpu::quantized_take_rows(*weights, mx::astype(ids, mx::int64, stream), std::move(composed),
                                  stream);
}

}  // namespace

std::vector<Op> quantized_rows() {
  return {
      op("quantize",
         "Codes, scales and, in mode 'affine', biases of w, quantised along its last axis; w is "
         "float32, "
         "float16 or bfloat16. Modes: "
         "'affine' (2, 3, 4, 5, 6 or 8 bits, groups of 32, 64 or 128), 'mxfp4', 'nvfp4', 'mxfp8'.",
         quantize, arg("w"), opt("groupSize", none), opt("bits", none),
         opt("mode", "affine").one_of(modes), opt("globalScale", none)),
      op("dequantize", "What quantize() has made of w.", dequantize, arg("w"), arg("scales"),
         opt("biases", none), opt("groupSize", none), opt("bits", none),
         opt("mode", "affine").one_of(modes), opt("globalScale", none), opt("dtype", none)),
      op("quantizedMatmul",
         "x · wᵀ, or x · w unless transpose, for w as quantize() gives it. On the CPU x · wᵀ is "
         "computed in float32 whatever x is; there precision 'fast' rounds x to 8 bits per group "
         "of 32 first, see blockLinear, save in mode 'mxfp8', which knows 'exact' only.",
         quantized_matmul, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("transpose", true), opt("groupSize", none), opt("bits", none),
         opt("mode", "affine").one_of(modes), opt("precision", "exact").one_of(precisions)),
      op("quantizedLinear",
         "x · wᵀ + bias for w [N, K] as quantize() gives it: see quantizedMatmul.",
         quantized_linear, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("bias", none), opt("groupSize", none), opt("bits", none),
         opt("mode", "affine").one_of(modes), opt("precision", "exact").one_of(precisions)),
      op("quantizedLinears",
         "quantizedLinear of x with each of several matrices, all packed alike, in one pass over "
         "x: see blockLinears. Of each list there are as many arrays as matrices.",
         quantized_linears, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("bias", none), opt("groupSize", none), opt("bits", none),
         opt("mode", "affine").one_of(modes), opt("precision", "exact").one_of(precisions)),
      op("quantizedTake", "Rows of w [N, K] as quantize() gives it, in float32 [..., K].",
         quantized_take, arg("w"), arg("scales"), opt("biases", none), arg("ids"),
         opt("groupSize", none), opt("bits", none), opt("mode", "affine").one_of(modes)),
      op("gatherQmm",
         "quantizedMatmul of the matrices of x and w that the indices name. On the CPU rows that "
         "meet the same matrix of w are multiplied together, sorted or not. Indices outside are an "
         "error, or, where they are yet to be computed, give NaN.",
         gather_qmm, arg("x"), arg("w"), arg("scales"), opt("biases", none),
         opt("lhsIndices", none), opt("rhsIndices", none), opt("transpose", true),
         opt("groupSize", none), opt("bits", none), opt("mode", "affine").one_of(modes),
         opt("globalScale", none), opt("sortedIndices", false),
         opt("precision", "exact").one_of(precisions)),
  };
}

}  // namespace mlx_runners
