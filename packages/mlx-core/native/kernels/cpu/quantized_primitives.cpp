#include "kernels/cpu/quantized_primitives.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/scratch.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

/// What is read through plain pointers: as it is where it is known to be row-contiguous.
mx::array contiguous(const mx::array& a, const mx::Stream& stream) {
  return a.is_available() && a.flags().row_contiguous ? a : mx::contiguous(a, false, stream);
}

int64_t scale_bytes(WeightFormat format) {
  return format == WeightFormat::Affine4_F32 || format == WeightFormat::Affine8_F32 ? 4 : 2;
}

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
    if (format_ > WeightFormat::Q6_K) {
      w.rows.scales = inputs[first + 1].data<uint8_t>();
      w.rows.biases = inputs[first + 2].data<uint8_t>();
      w.rows.scale_step = inputs[first + 1].shape(-1);
      w.rows.group_shift = group_shift_;
    }
    return w;
  }
  /// Inputs that belong to the weights.
  size_t weight_arrays() const { return format_ > WeightFormat::Q6_K ? 3 : 1; }

 private:
  WeightFormat format_;
  int64_t depth_;
  int group_shift_;
};

class QuantizedLinear : public QuantizedPrimitive {
 public:
  QuantizedLinear(mx::Stream stream, Composed composed, const WeightArrays& w, Precision precision)
      : QuantizedPrimitive(stream, std::move(composed), w), precision_(precision) {}
  DEFINE_NAME(QuantizedLinear)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.back() = inputs[1].shape(-2);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    const size_t bias_at = 1 + weight_arrays();
    const float* bias = inputs.size() > bias_at ? inputs[bias_at].data<float>() : nullptr;
    allocate(out);
    const WeightMatrix w = matrix(inputs, 1);
    dispatch(stream(),
             [from = x.data<float>(), rows = static_cast<int64_t>(x.size()) / w.rows.depth, w, bias,
              precision = precision_,
              to = out.data<float>()] { quantized_matmul(from, rows, w, bias, precision, to); });
  }

 private:
  Precision precision_;
};

/// Products of rows of x with the matrices that ids names: those of one matrix together.
void multiply_gathered(const float* x, int64_t rows, const WeightMatrix& first, int64_t matrices,
                       const int64_t* ids, Precision precision, float* out) {
  const int64_t depth = first.rows.depth;
  const int64_t columns = first.columns;
  std::vector<int64_t> order(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    order[static_cast<size_t>(i)] = i;
  }
  std::stable_sort(order.begin(), order.end(),
                   [ids](int64_t a, int64_t b) { return ids[a] < ids[b]; });
  for (auto begin = order.begin(); begin < order.end();) {
    const int64_t id = ids[*begin];
    const auto end = std::find_if(begin, order.end(), [&](int64_t row) { return ids[row] != id; });
    const int64_t count = end - begin;
    const int64_t index = id < 0 ? id + matrices : id;
    if (index < 0 || index >= matrices) {
      for (; begin < end; ++begin) {
        std::fill_n(out + *begin * columns, columns, std::numeric_limits<float>::quiet_NaN());
      }
      continue;
    }
    WeightMatrix w = first;
    w.rows.codes += index * columns * w.rows.row_bytes;
    if (count == 1) {
      quantized_matmul(x + *begin * depth, 1, w, nullptr, precision, out + *begin * columns);
    } else {
      const Scratch gathered(static_cast<size_t>(count * (depth + columns)));
      float* products = gathered.data() + count * depth;
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(x + begin[i] * depth, depth, gathered.data() + i * depth);
      }
      quantized_matmul(gathered.data(), count, w, nullptr, precision, products);
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(products + i * columns, columns, out + begin[i] * columns);
      }
    }
    begin = end;
  }
}

class QuantizedGatherLinear : public QuantizedPrimitive {
 public:
  QuantizedGatherLinear(mx::Stream stream, Composed composed, const WeightArrays& w,
                        Precision precision)
      : QuantizedPrimitive(stream, std::move(composed), w), precision_(precision) {}
  DEFINE_NAME(QuantizedGatherLinear)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {{inputs[0].shape(0), inputs[1].shape(-2)}};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    allocate(out);
    dispatch(stream(), [from = x.data<float>(), rows = x.shape(0), w = matrix(inputs, 1),
                        matrices = inputs[1].shape(0), ids = inputs[2].data<int64_t>(),
                        precision = precision_, to = out.data<float>()] {
      multiply_gathered(from, rows, w, matrices, ids, precision, to);
    });
  }

 private:
  Precision precision_;
};

class QuantizedTake : public QuantizedPrimitive {
 public:
  using QuantizedPrimitive::QuantizedPrimitive;
  DEFINE_NAME(QuantizedTake)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[1].shape();
    shape.push_back(static_cast<int>(matrix(inputs, 0).rows.depth));
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    allocate(out);
    dispatch(stream(), [w = matrix(inputs, 0), ids = inputs[1].data<int64_t>(),
                        count = static_cast<int64_t>(inputs[1].size()),
                        to = out.data<float>()] { quantized_take(w, ids, count, to); });
  }
};

std::vector<mx::array> contiguous_arrays(const WeightArrays& w, const mx::Stream& stream) {
  std::vector<mx::array> arrays;
  for (const mx::array& a : w.arrays) {
    arrays.push_back(contiguous(a, stream));
  }
  return arrays;
}

}  // namespace

mx::array quantized_linear(const mx::array& x, const WeightArrays& w,
                           const std::optional<mx::array>& bias, Precision precision,
                           Composed composed, const mx::Stream& stream) {
  std::vector<mx::array> inputs{x};
  for (const mx::array& a : contiguous_arrays(w, stream)) {
    inputs.push_back(a);
  }
  if (bias) {
    inputs.push_back(contiguous(*bias, stream));
  }
  if (!can_fuse(stream, {x}) || (bias && !can_fuse(stream, {*bias}))) {
    return composed(inputs)[0];
  }
  mx::Shape shape = x.shape();
  shape.back() = w.arrays[0].shape(-2);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<QuantizedLinear>(stream, std::move(composed), w, precision),
                   std::move(inputs));
}

mx::array quantized_gather_linear(const mx::array& x, const WeightArrays& w, const mx::array& ids,
                                  Precision precision, Composed composed,
                                  const mx::Stream& stream) {
  const std::vector<mx::array> inputs{x, contiguous_arrays(w, stream)[0], contiguous(ids, stream)};
  if (!can_fuse(stream, {x}) || ids.is_tracer()) {
    return composed(inputs)[0];
  }
  return mx::array(
      {x.shape(0), w.arrays[0].shape(-2)}, mx::float32,
      std::make_shared<QuantizedGatherLinear>(stream, std::move(composed), w, precision), inputs);
}

mx::array quantized_take_rows(const WeightArrays& w, const mx::array& ids, Composed composed,
                              const mx::Stream& stream) {
  const std::vector<mx::array> inputs{contiguous_arrays(w, stream)[0], contiguous(ids, stream)};
  if (stream.device != mx::Device::cpu || ids.size() == 0 || ids.is_tracer()) {
    return composed(inputs)[0];
  }
  mx::Shape shape = ids.shape();
  shape.push_back(w.depth);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<QuantizedTake>(stream, std::move(composed), w), inputs);
}

}  // namespace mlx_runners::cpu
