// Rows of mlx/ops.h that reduce, sort or accumulate along axes.
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using Ints = std::vector<int>;
using S = mx::StreamOrDevice;
using OverAxes = array(const array&, const Ints&, bool, S);
using OverAll = array(const array&, bool, S);

// MLX's CPU loops count in 32 bits, and those over an empty array that isn't row-contiguous never
// end.
array reducible(const array& a, S s) {
  if (a.size() > std::numeric_limits<int>::max() && mx::to_stream(s).device == mx::Device::cpu) {
    throw std::invalid_argument("[reduce] " + std::to_string(a.size()) +
                                " elements are more than the CPU reduces at once: reduce parts.");
  }
  return a.size() == 0 ? mx::zeros(a.shape(), a.dtype(), s) : a;
}

// One shape for all of MLX's reductions: some axes, or all of them when none are given.
template <OverAxes* axes_overload, OverAll* all_overload>
array reduce(const array& given, Axes axes, bool keepdims, S s) {
  const array a = reducible(given, s);
  return axes ? axes_overload(a, *axes, keepdims, s) : all_overload(a, keepdims, s);
}

template <OverAxes* axes_overload, OverAll* all_overload>
Op reduction(const char* name, const char* doc) {
  return op(name, doc, reduce<axes_overload, all_overload>, arg("a"), opt("axes", none),
            opt("keepdims", false));
}

using Spread = array(const array&, const Ints&, bool, int, S);
using SpreadAll = array(const array&, bool, int, S);

template <Spread* axes_overload, SpreadAll* all_overload>
array spread(const array& given, Axes axes, bool keepdims, int ddof, S s) {
  const array a = reducible(given, s);
  return axes ? axes_overload(a, *axes, keepdims, ddof, s) : all_overload(a, keepdims, ddof, s);
}

array argmax(const array& a, std::optional<int> axis, bool keepdims, S s) {
  return axis ? mx::argmax(a, *axis, keepdims, s) : mx::argmax(a, keepdims, s);
}
array argmin(const array& a, std::optional<int> axis, bool keepdims, S s) {
  return axis ? mx::argmin(a, *axis, keepdims, s) : mx::argmin(a, keepdims, s);
}

// Softmax over nothing given means over all axes, as in MLX.
array softmax(const array& a, Axes axes, bool precise, S s) {
  return axes ? mx::softmax(a, *axes, precise, s) : mx::softmax(a, precise, s);
}
array softmax_on_cpu(const array& a, Axes axes, bool precise, S s) {
  return axes ? cpu::softmax(a, *axes, precise, s) : mx::softmax(a, precise, s);
}

array allclose(const array& a, const array& b, double rtol, double atol, bool equal_nan, S s) {
  return mx::all(reducible(mx::isclose(a, b, rtol, atol, equal_nan, s), s), s);
}

array cumsum(const array& a, int axis, bool reverse, bool inclusive, S s) {
  return mx::cumsum(a, axis, reverse, inclusive, std::nullopt, s);
}

}  // namespace

std::vector<Op> reduction_rows() {
  return {
      reduction<mx::sum, mx::sum>("sum", "Sum."),
      reduction<mx::mean, mx::mean>("mean", "Arithmetic mean."),
      reduction<mx::prod, mx::prod>("prod", "Product."),
      reduction<mx::max, mx::max>("max", "Largest value."),
      reduction<mx::min, mx::min>("min", "Smallest value."),
      reduction<mx::all, mx::all>("all", "True when all are not zero."),
      reduction<mx::any, mx::any>("any", "True when one is not zero."),
      reduction<mx::logsumexp, mx::logsumexp>("logsumexp", "log Σ e^a."),
      reduction<mx::median, mx::median>("median", "Median."),
      op("variance", "Variance; ddof is taken off the divisor.", spread<mx::var, mx::var>, arg("a"),
         opt("axes", none), opt("keepdims", false), opt("ddof", 0)),
      op("std", "Standard deviation; ddof is taken off the divisor.", spread<mx::std, mx::std>,
         arg("a"), opt("axes", none), opt("keepdims", false), opt("ddof", 0)),
      op("argmax", "Index of the largest value.", argmax, arg("a"), opt("axis", none),
         opt("keepdims", false)),
      op("argmin", "Index of the smallest value.", argmin, arg("a"), opt("axis", none),
         opt("keepdims", false)),
      op("softmax", "e^a / Σ e^a over the axes.", softmax, arg("a"), opt("axes", none),
         opt("precise", false))
          .on_cpu(softmax_on_cpu),
      op("sort", "Ascending order along an axis.", select<array(const array&, int, S)>(mx::sort),
         arg("a"), opt("axis", -1)),
      op("argsort", "Indices that sort along an axis.",
         select<array(const array&, int, S)>(mx::argsort), arg("a"), opt("axis", -1)),
      op("partition", "Puts the kth smallest in its place, smaller ones before it.",
         select<array(const array&, int, int, S)>(mx::partition), arg("a"), arg("kth"),
         opt("axis", -1)),
      op("argpartition", "Indices of `partition`.",
         select<array(const array&, int, int, S)>(mx::argpartition), arg("a"), arg("kth"),
         opt("axis", -1)),
      op("topk", "The k largest values, in no order.",
         select<array(const array&, int, int, S)>(mx::topk), arg("a"), arg("k"), opt("axis", -1)),
      op("cumsum", "Running sum along an axis.", cumsum, arg("a"), opt("axis", -1),
         opt("reverse", false), opt("inclusive", true)),
      op("cummax", "Running maximum along an axis.",
         select<array(const array&, int, bool, bool, S)>(mx::cummax), arg("a"), opt("axis", -1),
         opt("reverse", false), opt("inclusive", true)),
      op("arrayEqual", "True when shapes and all values agree.",
         select<array(const array&, const array&, bool, S)>(mx::array_equal), arg("a"), arg("b"),
         opt("equalNan", false)),
      op("allclose", "True when all values agree within tolerances.", allclose, arg("a"), arg("b"),
         opt("rtol", 1e-5), opt("atol", 1e-8), opt("equalNan", false)),
      op("isclose", "True where values agree within tolerances.", mx::isclose, operand("a"),
         operand("b"), opt("rtol", 1e-5), opt("atol", 1e-8), opt("equalNan", false)),
  };
}

}  // namespace mlx_runners
