// linear, matmul and conv1d as MLX primitives.
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/quantized_primitives.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

#if defined(__APPLE__)
// Accelerate, which MLX uses there, drives the matrix unit: only products of few rows are ours.
constexpr int64_t kMaxRows = 8;
#else
constexpr int64_t kMaxRows = std::numeric_limits<int64_t>::max();
#endif

class Linear : public FusedPrimitive {
 public:
  using FusedPrimitive::FusedPrimitive;
  DEFINE_NAME(FusedLinear)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.back() = inputs[1].shape(0);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    const mx::array w = row_contiguous(inputs[1], stream());
    const float* bias =
        inputs.size() > 2 ? row_contiguous(inputs[2], stream()).data<float>() : nullptr;
    allocate(out);
    const int64_t depth = x.shape(-1);
    const int64_t rows = static_cast<int64_t>(x.size()) / depth;
    const LeftRows left = plain_matrix(x.data<float>(), rows, depth);
    dispatch(stream(), [left, rows, weights = w.data<float>(), columns = w.shape(0), bias,
                        to = out.data<float>()] {
      matmul_transposed(left, rows, weights, columns, bias, to);
    });
  }
};

class Conv1d : public FusedPrimitive {
 public:
  Conv1d(mx::Stream stream, Composed composed, int stride, int padding)
      : FusedPrimitive(stream, std::move(composed)), stride_(stride), padding_(padding) {}
  DEFINE_NAME(FusedConv1d)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    const mx::array& w = inputs[1];
    const int positions = (inputs[0].shape(1) + 2 * padding_ - w.shape(1)) / stride_ + 1;
    return {{inputs[0].shape(0), positions, w.shape(0)}};
  }

  // An output position's receptive field is contiguous in channels-last memory: the convolution is
  // a product of overlapping rows, padding being what lies outside the input.
  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = row_contiguous(inputs[0], stream());
    const mx::array w = row_contiguous(inputs[1], stream());
    allocate(out);
    const int64_t channels = x.shape(2);
    const int64_t positions = out.shape(1);
    const LeftRows left{.base = x.data<float>(),
                        .batch_step = x.shape(1) * channels,
                        .rows = positions,
                        .row_step = stride_ * channels,
                        .row_offset = -padding_ * channels,
                        .limit = x.shape(1) * channels,
                        .depth = w.shape(1) * channels};
    dispatch(stream(), [left, rows = out.shape(0) * positions, weights = w.data<float>(),
                        columns = w.shape(0), to = out.data<float>()] {
      matmul_transposed(left, rows, weights, columns, nullptr, to);
    });
  }

 private:
  int stride_;
  int padding_;
};

mx::array composed_linear(const mx::array& x, const mx::array& w,
                          const std::optional<mx::array>& bias, const mx::Stream& stream) {
  const mx::array transposed = mx::transpose(w, stream);
  return bias ? mx::addmm(*bias, x, transposed, 1.0f, 1.0f, stream)
              : mx::matmul(x, transposed, stream);
}

void check_linear(const mx::array& x, const mx::array& w) {
  if (w.ndim() != 2 || x.ndim() == 0 || x.shape(-1) != w.shape(1)) {
    std::ostringstream message;
    message << "[linear] Expected x of shape (..., K) and w of shape (N, K) but got shapes "
            << x.shape() << " and " << w.shape() << ".";
    throw std::invalid_argument(message.str());
  }
}

/// Whether conv1d's arguments are valid and those of the kernel: dilation 1, one group.
bool is_plain_conv(const mx::array& x, const mx::array& w, int stride, int padding, int dilation,
                   int groups) {
  return x.ndim() == 3 && w.ndim() == 3 && x.shape(2) == w.shape(2) && stride >= 1 &&
         padding >= 0 && dilation == 1 && groups == 1 &&
         x.shape(1) + 2 * int64_t{padding} >= w.shape(1);
}

bool is_half(const mx::array& x) { return x.dtype() == mx::float16 || x.dtype() == mx::bfloat16; }
bool is_float(const mx::array& x) { return x.dtype() == mx::float32 || is_half(x); }

/// Whether b is known to lie in memory as the rows of its transposed view.
bool is_transposed(const mx::array& b) {
  if (b.is_available()) {
    return b.strides(0) == 1 && b.strides(1) == b.shape(0);
  }
  return b.has_primitive() && std::string_view(b.primitive().name()) == "Transpose";
}

mx::array linear_of_floats(const mx::array& x, const mx::array& w,
                           const std::optional<mx::array>& bias, Composed composed,
                           const mx::Stream& stream) {
  std::vector<mx::array> inputs{x, w};
  if (bias) {
    inputs.push_back(*bias);
  }
  mx::Shape shape = x.shape();
  shape.back() = w.shape(0);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<Linear>(stream, std::move(composed)), std::move(inputs));
}

}  // namespace

mx::array linear(const mx::array& x, const mx::array& w, const std::optional<mx::array>& bias,
                 mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  check_linear(x, w);
  const auto fits = [](const mx::array& a) {
    return is_float(a) && a.size() > 0 && !a.is_tracer();
  };
  const bool plain_bias = !bias || (fits(*bias) && bias->shape() == mx::Shape{w.shape(0)});
  if (stream.device != mx::Device::cpu || !fits(x) || !fits(w) || !plain_bias ||
      static_cast<int64_t>(x.size()) / x.shape(-1) > kMaxRows) {
    return composed_linear(x, w, bias, stream);
  }
  // Weights of 16 bits are read as they are, the others as float32, in which all is computed.
  mx::Dtype dtype = mx::promote_types(x.dtype(), w.dtype());
  if (bias) {
    dtype = mx::promote_types(dtype, bias->dtype());
  }
  const auto wide = [&](const mx::array& a) { return mx::astype(a, mx::float32, stream); };
  auto composed = [stream](const std::vector<mx::array>& in) {
    const auto b = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
    const mx::array weights = mx::astype(in[1], mx::float32, stream);
    return std::vector<mx::array>{composed_linear(in[0], weights, b, stream)};
  };
  const std::optional<mx::array> added = bias ? std::optional(wide(*bias)) : std::nullopt;
  if (w.dtype() == mx::float32) {
    return linear_of_floats(wide(x), w, added, std::move(composed), stream);
  }
  const WeightArrays weights{
      w.dtype() == mx::float16 ? WeightFormat::F16 : WeightFormat::BF16, {w}, w.shape(1)};
  return mx::astype(
      quantized_linear(wide(x), weights, added, Precision::kExact, std::move(composed), stream),
      dtype, stream);
}

mx::array matmul(const mx::array& a, const mx::array& b, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const bool floats = is_float(a) && is_half(b) && a.ndim() > 0 && a.size() > 0 && b.size() > 0;
  if (!floats || stream.device != mx::Device::cpu) {
    return mx::matmul(a, b, stream);
  }
  if (b.ndim() == 2 && a.shape(-1) == b.shape(0) && is_transposed(b)) {
    return linear(a, mx::transpose(b, stream), std::nullopt, stream);
  }
  // MLX multiplies halves one by one; converting both for the BLAS takes less time.
  const auto wide = [&](const mx::array& x) { return mx::astype(x, mx::float32, stream); };
  return mx::astype(mx::matmul(wide(a), wide(b), stream), mx::promote_types(a.dtype(), b.dtype()),
                    stream);
}

mx::array conv1d(const mx::array& x, const mx::array& w, int stride, int padding, int dilation,
                 int groups, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  if (!can_fuse(stream, {x, w}) || !is_plain_conv(x, w, stride, padding, dilation, groups)) {
    return mx::conv1d(x, w, stride, padding, dilation, groups, stream);
  }
  const int64_t positions = (x.shape(1) + 2 * int64_t{padding} - w.shape(1)) / stride + 1;
  if (x.shape(0) * positions > kMaxRows) {
    return mx::conv1d(x, w, stride, padding, dilation, groups, stream);
  }
  auto composed = [stride, padding, stream](const std::vector<mx::array>& in) {
    return std::vector<mx::array>{mx::conv1d(in[0], in[1], stride, padding, 1, 1, stream)};
  };
  return mx::array({x.shape(0), static_cast<int>(positions), w.shape(0)}, mx::float32,
                   std::make_shared<Conv1d>(stream, std::move(composed), stride, padding), {x, w});
}

}  // namespace mlx_runners::cpu
