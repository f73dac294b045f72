#include "kernels/cpu/quantized_primitives.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/scratch.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

class QuantizedPrimitive : public FusedPrimitive {
 public:
  QuantizedPrimitive(mx::Stream stream, Composed composed, const WeightArrays& w)
      : FusedPrimitive(stream, std::move(composed)),
        format_(w.format),
        depth_(w.depth),
        group_shift_(w.group_shift) {}

 protected:
  /// The (first) matrix whose arrays start in `inputs` at `first`.
  WeightMatrix matrix(const std::vector<mx::array>& inputs, size_t first) const {
    const mx::array& codes = inputs[first];
    WeightMatrix w{.format = format_, .rows = {}, .columns = codes.shape(-2)};
    w.rows.codes = codes.data<uint8_t>();
    w.rows.row_bytes = static_cast<int64_t>(codes.shape(-1)) * codes.itemsize();
    w.rows.depth = depth_;
    const int side = side_arrays(format_);
    if (side > 0) {
      w.rows.scales = inputs[first + 1].data<uint8_t>();
      w.rows.scale_step = inputs[first + 1].shape(-1);
      w.rows.group_shift = group_shift_;
    }
    if (side > 1) {
      w.rows.biases = inputs[first + 2].data<uint8_t>();
    }
    return w;
  }
  /// Inputs that belong to the weights.
  size_t weight_arrays() const { return 1 + static_cast<size_t>(side_arrays(format_)); }
  int depth() const { return depth_; }

 private:
  WeightFormat format_;
  int64_t depth_;
  int group_shift_;
};

/// Inputs: x, then of each of `count` matrices the arrays and, if they have one, the bias.
class QuantizedLinears : public QuantizedPrimitive {
 public:
  QuantizedLinears(mx::Stream stream, Composed composed, const WeightArrays& w, size_t count,
                   Precision precision)
      : QuantizedPrimitive(stream, std::move(composed), w), count_(count), precision_(precision) {}
  DEFINE_NAME(QuantizedLinears)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    std::vector<mx::Shape> shapes(count_, inputs[0].shape());
    for (size_t i = 0; i < count_; ++i) {
      shapes[i].back() = inputs[first_of(i, inputs)].shape(-2);
    }
    return shapes;
  }

  using FusedPrimitive::eval_cpu;
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    const bool biased = inputs.size() > 1 + count_ * weight_arrays();
    std::vector<QuantizedProduct> products;
    for (size_t i = 0; i < count_; ++i) {
      const size_t first = first_of(i, inputs);
      allocate(outputs[i]);
      products.push_back({.w = matrix(inputs, first),
                          .bias = biased ? inputs[first + weight_arrays()].data<float>() : nullptr,
                          .out = outputs[i].data<float>()});
    }
    dispatch(stream(), [from = x.data<float>(), rows = static_cast<int64_t>(x.size()) / depth(),
                        products = std::move(products), precision = precision_] {
      quantized_matmul(from, rows, products, precision);
    });
  }

 private:
  size_t first_of(size_t matrix, const std::vector<mx::array>& inputs) const {
    return 1 + matrix * ((inputs.size() - 1) / count_);
  }

  size_t count_;
  Precision precision_;
};

/// What `one` does, for as many matrices, whose inputs follow one another.
Composed for_each_matrix(Composed one, size_t count) {
  return [one = std::move(one), count](const std::vector<mx::array>& in) {
    const auto size = static_cast<std::ptrdiff_t>((in.size() - 1) / count);
    std::vector<mx::array> results;
    for (auto first = in.begin() + 1; first != in.end(); first += size) {
      std::vector<mx::array> inputs{in[0]};
      inputs.insert(inputs.end(), first, first + size);
      results.push_back(one(inputs)[0]);
    }
    return results;
  };
}

/// Matrix `index` of those that `first` begins.
WeightMatrix matrix_of(const WeightMatrix& first, int64_t index) {
  WeightMatrix w = first;
  w.rows.codes += index * w.columns * w.rows.row_bytes;
  const int64_t side = index * w.columns * w.rows.scale_step * scale_bytes(w.format);
  if (side_arrays(w.format) > 0) {
    w.rows.scales += side;
  }
  if (side_arrays(w.format) > 1) {
    w.rows.biases += side;
  }
  return w;
}

/// What is multiplied by what: pair i is block left[i] of x, `rows` rows, and matrix right[i].
struct Pairs {
  const float* x;
  int64_t blocks;
  int64_t rows;
  int64_t matrices;
  const int64_t* left;  // null: block i
  const int64_t* right;
  int64_t count;

  /// The block of pair i, or -1 where there is none.
  int64_t block(int64_t i) const { return left == nullptr ? i : place(left[i], blocks); }

  static int64_t place(int64_t index, int64_t size) {
    const int64_t counted = index < 0 ? index + size : index;
    return counted < size ? std::max<int64_t>(counted, -1) : -1;
  }
};

/// Products of the pairs [begin, end) with their one matrix; blocks beyond x are left alone.
void multiply_together(const Pairs& pairs, const int64_t* begin, const int64_t* end,
                       const WeightMatrix& w, Precision precision, float* out) {
  const int64_t from_floats = pairs.rows * w.rows.depth;
  const int64_t to_floats = pairs.rows * w.columns;
  const int64_t count = end - begin;
  if (count == 1) {
    quantized_matmul(pairs.x + pairs.block(*begin) * from_floats, pairs.rows, w, nullptr, precision,
                     out + *begin * to_floats);
    return;
  }
  const Scratch gathered(static_cast<size_t>(count * (from_floats + to_floats)));
  float* products = gathered.data() + count * from_floats;
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(pairs.x + pairs.block(begin[i]) * from_floats, from_floats,
                gathered.data() + i * from_floats);
  }
  quantized_matmul(gathered.data(), count * pairs.rows, w, nullptr, precision, products);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(products + i * to_floats, to_floats, out + begin[i] * to_floats);
  }
}

/// Products of all pairs, those of one matrix together; NaN where there is no such block or matrix.
void multiply_gathered(const Pairs& pairs, const WeightMatrix& first, Precision precision,
                       float* out) {
  const int64_t to_floats = pairs.rows * first.columns;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < pairs.count; ++i) {
    if (pairs.block(i) >= 0 && Pairs::place(pairs.right[i], pairs.matrices) >= 0) {
      order.push_back(i);
    } else {
      std::fill_n(out + i * to_floats, to_floats, std::numeric_limits<float>::quiet_NaN());
    }
  }
  const auto matrix = [&](int64_t i) { return Pairs::place(pairs.right[i], pairs.matrices); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return matrix(a) < matrix(b); });
  for (auto begin = order.begin(); begin < order.end();) {
    const int64_t index = matrix(*begin);
    const auto end =
        std::find_if(begin, order.end(), [&](int64_t i) { return matrix(i) != index; });
    multiply_together(pairs, &*begin, &*begin + (end - begin), matrix_of(first, index), precision,
                      out);
    begin = end;
  }
}

/// Inputs: x, the arrays of w, right indices and, if any, left ones.
class QuantizedGatherLinear : public QuantizedPrimitive {
 public:
  QuantizedGatherLinear(mx::Stream stream, Composed composed, const WeightArrays& w,
                        Precision precision)
      : QuantizedPrimitive(stream, std::move(composed), w), precision_(precision) {}
  DEFINE_NAME(QuantizedGatherLinear)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {{inputs[1 + weight_arrays()].shape(0), inputs[0].shape(1), inputs[1].shape(-2)}};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    allocate(out);
    const size_t right = 1 + weight_arrays();
    const bool has_left = inputs.size() > right + 1;
    const Pairs pairs{.x = x.data<float>(),
                      .blocks = x.shape(0),
                      .rows = x.shape(1),
                      .matrices = inputs[1].shape(0),
                      .left = has_left ? inputs[right + 1].data<int64_t>() : nullptr,
                      .right = inputs[right].data<int64_t>(),
                      .count = inputs[right].shape(0)};
    dispatch(stream(), [pairs, w = matrix(inputs, 1), precision = precision_,
                        to = out.data<float>()] { multiply_gathered(pairs, w, precision, to); });
  }

 private:
  Precision precision_;
};

class QuantizedTake : public QuantizedPrimitive {
 public:
  using QuantizedPrimitive::QuantizedPrimitive;
  DEFINE_NAME(QuantizedTake)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs.back().shape();
    shape.push_back(depth());
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    allocate(out);
    const mx::array& ids = inputs.back();
    dispatch(stream(), [w = matrix(inputs, 0), from = ids.data<int64_t>(),
                        count = static_cast<int64_t>(ids.size()),
                        to = out.data<float>()] { quantized_take(w, from, count, to); });
  }
};

/// The arrays of w, and others, as they are read.
std::vector<mx::array> contiguous_arrays(const WeightArrays& w,
                                         std::initializer_list<std::optional<mx::array>> others,
                                         const mx::Stream& stream) {
  std::vector<mx::array> arrays;
  for (const mx::array& a : w.arrays) {
    arrays.push_back(contiguous(a, stream));
  }
  for (const std::optional<mx::array>& a : others) {
    if (a) {
      arrays.push_back(contiguous(*a, stream));
    }
  }
  return arrays;
}

bool needs_composed(const std::vector<mx::array>& arrays) {
  return MlxPrimitivesOnly::active() ||
         std::any_of(arrays.begin(), arrays.end(),
                     [](const mx::array& a) { return a.is_tracer(); });
}

}  // namespace

std::vector<mx::array> quantized_linears(const mx::array& x,
                                         const std::vector<WeightArrays>& weights,
                                         const std::vector<mx::array>& biases, Precision precision,
                                         Composed composed, const mx::Stream& stream) {
  const auto bias_of = [&](size_t i) {
    return biases.empty() ? std::nullopt : std::optional(biases[i]);
  };
  const auto is_empty = [](const WeightArrays& w) { return w.arrays[0].size() == 0; };
  if (weights.size() > 1 && std::any_of(weights.begin(), weights.end(), is_empty)) {
    std::vector<mx::array> results;
    for (size_t i = 0; i < weights.size(); ++i) {
      results.push_back(quantized_linear(x, weights[i], bias_of(i), precision, composed, stream));
    }
    return results;
  }
  std::vector<mx::array> inputs{x};
  std::vector<mx::Shape> shapes;
  bool fits = can_fuse(stream, {x});
  for (size_t i = 0; i < weights.size(); ++i) {
    const WeightArrays& w = weights[i];
    const auto bias = bias_of(i);
    fits = fits && !is_empty(w) && (!bias || can_fuse(stream, {*bias}));
    const std::vector<mx::array> arrays = contiguous_arrays(w, {bias}, stream);
    inputs.insert(inputs.end(), arrays.begin(), arrays.end());
    shapes.push_back(x.shape());
    shapes.back().back() = w.arrays[0].shape(-2);
  }
  if (weights.size() > 1) {
    composed = for_each_matrix(std::move(composed), weights.size());
  }
  if (!fits || needs_composed(inputs)) {
    return composed(inputs);
  }
  auto primitive = std::make_shared<QuantizedLinears>(stream, std::move(composed), weights[0],
                                                      weights.size(), precision);
  return mx::array::make_arrays(std::move(shapes),
                                std::vector<mx::Dtype>(weights.size(), mx::float32),
                                std::move(primitive), inputs);
}

mx::array quantized_linear(const mx::array& x, const WeightArrays& w,
                           const std::optional<mx::array>& bias, Precision precision,
                           Composed composed, const mx::Stream& stream) {
  const auto biases = bias ? std::vector<mx::array>{*bias} : std::vector<mx::array>{};
  return quantized_linears(x, {w}, biases, precision, std::move(composed), stream)[0];
}

mx::array quantized_gather_linear(const mx::array& x, const WeightArrays& w,
                                  const std::optional<mx::array>& left, const mx::array& right,
                                  Precision precision, Composed composed,
                                  const mx::Stream& stream) {
  std::vector<mx::array> inputs = contiguous_arrays(w, {right, left}, stream);
  inputs.insert(inputs.begin(), x);
  if (!can_fuse(stream, {x}) || right.size() == 0 || needs_composed(inputs)) {
    return composed(inputs)[0];
  }
  return mx::array(
      {right.shape(0), x.shape(1), w.arrays[0].shape(-2)}, mx::float32,
      std::make_shared<QuantizedGatherLinear>(stream, std::move(composed), w, precision),
      std::move(inputs));
}

mx::array quantized_take_rows(const WeightArrays& w, const mx::array& ids, Composed composed,
                              const mx::Stream& stream) {
  std::vector<mx::array> inputs = contiguous_arrays(w, {ids}, stream);
  if (stream.device != mx::Device::cpu || ids.size() == 0 || needs_composed(inputs)) {
    return composed(inputs)[0];
  }
  mx::Shape shape = ids.shape();
  shape.push_back(w.depth);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<QuantizedTake>(stream, std::move(composed), w),
                   std::move(inputs));
}

}  // namespace mlx_runners::cpu
