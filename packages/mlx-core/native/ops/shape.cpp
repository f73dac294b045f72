// Rows of mlx/ops.h that make arrays, or change their shape, order or part.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernels/cpu/fused_primitive.h"
#include "mlx/ops.h"
#include "ops/indices.h"
#include "ops/rows.h"
#include "program/slice_update_in_place.h"

namespace mlx_runners {
namespace {

using mx::array;
using mx::Shape;
using Arrays = std::vector<array>;
using Ints = std::vector<int>;
using S = mx::StreamOrDevice;

array arange(double start, double stop, double step, mx::Dtype dtype, S s) {
  return mx::arange(start, stop, step, dtype, s);
}
array full(const Shape& shape, const array& value, std::optional<mx::Dtype> dtype, S s) {
  return dtype ? mx::full(shape, value, *dtype, s) : mx::full(shape, value, s);
}
array zeros(const Shape& shape, mx::Dtype dtype, S s) { return mx::zeros(shape, dtype, s); }
array ones(const Shape& shape, mx::Dtype dtype, S s) { return mx::ones(shape, dtype, s); }
array eye(int n, std::optional<int> m, int k, mx::Dtype dtype, S s) {
  return mx::eye(n, m.value_or(n), k, dtype, s);
}
array tri(int n, std::optional<int> m, int k, mx::Dtype dtype, S s) {
  return mx::tri(n, m.value_or(n), k, dtype, s);
}
array tril(const array& a, int k, S s) { return mx::tril(a, k, s); }
array triu(const array& a, int k, S s) { return mx::triu(a, k, s); }
array copy(const array& a, S s) { return mx::copy(a, s); }
array flatten(const array& a, int start, int end, S s) { return mx::flatten(a, start, end, s); }

array squeeze(const array& a, Axes axes, S s) {
  return axes ? mx::squeeze(a, *axes, s) : mx::squeeze(a, s);
}
array expand_dims(const array& a, Axes axes, S s) {
  if (!axes) throw std::invalid_argument("[expand_dims] axes have to be given.");
  return mx::expand_dims(a, *axes, s);
}
array flip(const array& a, Axes axes, S s) { return axes ? mx::flip(a, *axes, s) : mx::flip(a, s); }
array transpose(const array& a, Axes axes, S s) {
  return axes ? mx::transpose(a, *axes, s) : mx::transpose(a, s);
}

array unflatten(const array& a, int axis, const Shape& shape, S s) {
  // A size of −1 is found by division.
  if (std::find(shape.begin(), shape.end(), -1) != shape.end() &&
      std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    throw std::invalid_argument("[unflatten] a size of -1 can't be told beside one of 0.");
  }
  return mx::unflatten(a, axis, shape, s);
}

array slice(const array& a, Shape start, Shape stop, std::optional<Ints> strides, S s) {
  if (strides && std::find(strides->begin(), strides->end(), 0) != strides->end()) {
    throw std::invalid_argument("[slice] a stride can't be 0.");
  }
  if (!strides) return mx::slice(a, std::move(start), std::move(stop), s);
  return mx::slice(a, std::move(start), std::move(stop), Shape(strides->begin(), strides->end()),
                   s);
}
array slice_update(const array& a, const array& update, Shape start, Shape stop, S s) {
  return mx::slice_update(a, update, std::move(start), std::move(stop), s);
}
array as_strided(const array& a, Shape shape, const Ints& strides, int offset, S s) {
  // MLX trusts the caller; a view past the end would read other memory.
  if (shape.size() != strides.size()) {
    throw std::invalid_argument("[as_strided] shape and strides have different lengths.");
  }
  int64_t first = offset, last = offset;
  for (size_t i = 0; i < strides.size(); ++i) {
    if (shape[i] < 0) throw std::invalid_argument("[as_strided] negative shape.");
    const int64_t reach = int64_t{strides[i]} * std::max(shape[i] - 1, 0);
    (reach < 0 ? first : last) += reach;
  }
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (!empty && (first < 0 || last >= static_cast<int64_t>(a.size()))) {
    throw std::invalid_argument("[as_strided] the view reaches outside the array.");
  }
  return mx::as_strided(a, std::move(shape), mx::Strides(strides.begin(), strides.end()),
                        static_cast<size_t>(offset), s);
}

Arrays split(const array& a, int parts, int axis, S s) {
  constexpr int most = ExchangeLayout::results;
  if (parts < 1 || parts > most) {
    throw std::invalid_argument("[split] there can be 1 to " + std::to_string(most) + " parts.");
  }
  return mx::split(a, parts, axis, s);
}
Arrays split_at(const array& a, const Shape& indices, int axis, S s) {
  return mx::split(a, indices, axis, s);
}

array concatenate(const Arrays& arrays, int axis, S s) { return mx::concatenate(arrays, axis, s); }
array tile(const array& a, const Ints& reps, S s) { return mx::tile(a, reps, s); }
array repeat(const array& a, int repeats, std::optional<int> axis, S s) {
  return axis ? mx::repeat(a, repeats, *axis, s) : mx::repeat(a, repeats, s);
}

// MLX mirrors an axis by slices of at most its own size, each a node of the graph, until the
// padding is full.
void check_mirrors(const Shape& shape, const Ints& widths) {
  constexpr int64_t most = 1024;
  for (size_t i = 0; i < widths.size(); ++i) {
    const int64_t size = shape[i / 2];
    if (size > 0 && widths[i] > most * std::max<int64_t>(size - 1, 1)) {
      throw std::invalid_argument(
          "[pad] an axis of size " + std::to_string(size) + " can't be mirrored to a padding of " +
          std::to_string(widths[i]) + ": that is over 1024 times its size.");
    }
  }
}

// `widths` holds low and high padding of each axis in turn: [low0, high0, low1, high1, …].
array pad(const array& a, const Ints& widths, std::optional<array> value, const std::string& mode,
          S s) {
  if (widths.size() != 2 * a.ndim()) {
    throw std::invalid_argument("[pad] widths needs a low and a high number for each axis.");
  }
  if (mode == "reflect" || mode == "symmetric") check_mirrors(a.shape(), widths);
  Ints axes(a.ndim());
  std::iota(axes.begin(), axes.end(), 0);
  Shape low, high;
  for (size_t i = 0; i < a.ndim(); ++i) {
    low.push_back(widths[2 * i]);
    high.push_back(widths[2 * i + 1]);
  }
  return mx::pad(a, axes, low, high, value.value_or(array(0)), mode, s);
}

array take(const array& a, const array& indices, std::optional<int> axis, S s) {
  const array checked = checked_indices("take", indices, axis ? axis_size(a, *axis) : a.size(), s);
  return axis ? mx::take(a, checked, *axis, s) : mx::take(a, checked, s);
}
array take_along_axis(const array& a, const array& indices, int axis, S s) {
  const array checked = checked_indices("takeAlongAxis", indices, axis_size(a, axis), s);
  return mx::take_along_axis(a, checked, axis, s);
}
array put_along_axis(const array& a, const array& indices, const array& values, int axis, S s) {
  const array checked = checked_indices("putAlongAxis", indices, axis_size(a, axis), s);
  return mx::put_along_axis(a, checked, values, axis, s);
}
array roll(const array& a, int shift, std::optional<int> axis, S s) {
  return axis ? mx::roll(a, shift, *axis, s) : mx::roll(a, shift, s);
}
array contiguous(const array& a, S s) { return cpu::contiguous(a, mx::to_stream(s)); }

}  // namespace

std::vector<Op> shape_rows() {
  return {
      op("arange", "start, start + step, … below stop.", arange, arg("start"), arg("stop"),
         opt("step", 1.0), opt("dtype", mx::float32)),
      op("linspace", "`num` evenly spaced numbers.",
         select<array(double, double, int, bool, mx::Dtype, S)>(mx::linspace), arg("start"),
         arg("stop"), opt("num", 50), opt("endpoint", true), opt("dtype", mx::float32)),
      op("full", "An array of one value.", full, arg("shape"), operand("value"),
         opt("dtype", none)),
      op("zeros", "An array of zeros.", zeros, arg("shape"), opt("dtype", mx::float32)),
      op("ones", "An array of ones.", ones, arg("shape"), opt("dtype", mx::float32)),
      op("zerosLike", "Zeros of the same shape and dtype.",
         select<array(const array&, S)>(mx::zeros_like), arg("a")),
      op("onesLike", "Ones of the same shape and dtype.",
         select<array(const array&, S)>(mx::ones_like), arg("a")),
      op("eye", "Ones on the k-th diagonal.", eye, arg("n"), opt("m", none), opt("k", 0),
         opt("dtype", mx::float32)),
      op("tri", "Ones on and below the k-th diagonal.", tri, arg("n"), opt("m", none), opt("k", 0),
         opt("dtype", mx::float32)),
      op("tril", "The lower triangle; zeros above the k-th diagonal.", tril, arg("a"), opt("k", 0)),
      op("triu", "The upper triangle; zeros below the k-th diagonal.", triu, arg("a"), opt("k", 0)),
      op("copy", "A copy.", copy, arg("a")),
      op("contiguous", "The same values in row-major order without gaps.", contiguous, arg("a")),
      op("reshape", "Another shape for the same elements; one size may be −1.", mx::reshape,
         arg("a"), arg("shape")),
      op("unflatten", "Splits one axis into several.", unflatten, arg("a"), arg("axis"),
         arg("shape")),
      op("flatten", "Joins the axes from start to end.", flatten, arg("a"), opt("startAxis", 0),
         opt("endAxis", -1)),
      op("squeeze", "Drops axes of size 1.", squeeze, arg("a"), opt("axes", none)),
      op("expandDims", "Inserts axes of size 1.", expand_dims, arg("a"), arg("axes")),
      op("transpose", "Reorders the axes; reverses them when none are given.", transpose, arg("a"),
         opt("axes", none)),
      op("swapaxes", "Exchanges two axes.", mx::swapaxes, arg("a"), arg("axis1"), arg("axis2")),
      op("moveaxis", "Moves one axis to another place.", mx::moveaxis, arg("a"), arg("source"),
         arg("destination")),
      op("flip", "Reverses the order along axes.", flip, arg("a"), opt("axes", none)),
      op("roll", "Shifts elements along an axis, wrapping around.", roll, arg("a"), arg("shift"),
         opt("axis", none)),
      op("broadcastTo", "Repeats along axes of size 1 without copying.", mx::broadcast_to, arg("a"),
         arg("shape")),
      op("slice", "The part from start to stop, with strides, one number per axis.", slice,
         arg("a"), arg("start"), arg("stop"), opt("strides", none)),
      op("sliceUpdate", "A copy whose part from start to stop is replaced.", slice_update, arg("a"),
         arg("update"), arg("start"), arg("stop"))
          .updating(program::slice_update_in_place),
      op("asStrided", "A view with given shape, strides and offset, in elements.", as_strided,
         arg("a"), arg("shape"), arg("strides"), opt("offset", 0)),
      op("split", "Cuts into a number of equal parts.", split, arg("a"), arg("parts"),
         opt("axis", 0)),
      op("splitAt", "Cuts at the given indices.", split_at, arg("a"), arg("indices"),
         opt("axis", 0)),
      op("concatenate", "Joins along an existing axis.", concatenate, arg("arrays"),
         opt("axis", 0)),
      op("stack", "Joins along a new axis.", select<array(const Arrays&, int, S)>(mx::stack),
         arg("arrays"), opt("axis", 0)),
      op("tile", "Repeats the whole array along each axis.", tile, arg("a"), arg("reps")),
      op("repeat", "Repeats each element.", repeat, arg("a"), arg("repeats"), opt("axis", none)),
      op("pad",
         "Pads each axis by [low0, high0, low1, high1, …]; mode constant, edge, reflect or "
         "symmetric.",
         pad, arg("a"), arg("widths"), opt_operand("value"),
         opt("mode", "constant").one_of("constant|edge|reflect|symmetric")),
      op("take", "Elements, or slices along an axis, by index.", take, arg("a"), arg("indices"),
         opt("axis", none)),
      op("takeAlongAxis", "Elements by an index array of matching shape.", take_along_axis,
         arg("a"), arg("indices"), arg("axis")),
      op("putAlongAxis", "A copy with elements replaced by index.", put_along_axis, arg("a"),
         arg("indices"), arg("values"), arg("axis")),
  };
}

}  // namespace mlx_runners
