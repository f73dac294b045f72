// softmax, gelu and layer_norm as MLX primitives.
#include <cmath>

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/rows.h"
#include "mlx/fast.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

class Softmax : public FusedPrimitive {
 public:
  using FusedPrimitive::FusedPrimitive;
  DEFINE_NAME(FusedSoftmax)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = share_layout(inputs[0], out, stream());
    const int64_t columns = x.shape(-1);
    const int64_t rows = static_cast<int64_t>(out.data_size()) / columns;
    dispatch(stream(), [from = x.data<float>(), to = out.data<float>(), rows, columns] {
      softmax_rows(from, to, rows, columns);
    });
  }
};

class Gelu : public FusedPrimitive {
 public:
  using FusedPrimitive::FusedPrimitive;
  DEFINE_NAME(FusedGelu)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = share_layout(inputs[0], out, stream());
    dispatch(stream(), [from = x.data<float>(), to = out.data<float>(), n = out.data_size()] {
      gelu(from, to, static_cast<int64_t>(n));
    });
  }
};

class LayerNorm : public FusedPrimitive {
 public:
  LayerNorm(mx::Stream stream, Composed composed, bool has_weight, bool has_bias, float eps)
      : FusedPrimitive(stream, std::move(composed)),
        has_weight_(has_weight),
        has_bias_(has_bias),
        eps_(eps) {}
  DEFINE_NAME(FusedLayerNorm)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = share_layout(inputs[0], out, stream());
    const int64_t columns = x.shape(-1);
    const int64_t rows = static_cast<int64_t>(out.data_size()) / columns;
    const auto parameter = [&](bool present, size_t index) {
      return present ? row_contiguous(inputs[index], stream()).data<float>() : nullptr;
    };
    const float* weight = parameter(has_weight_, 1);
    const float* bias = parameter(has_bias_, has_weight_ ? 2 : 1);
    dispatch(stream(),
             [from = x.data<float>(), weight, bias, eps = eps_, to = out.data<float>(), rows,
              columns] { layer_norm_rows(from, weight, bias, eps, to, rows, columns); });
  }

 private:
  bool has_weight_;
  bool has_bias_;
  float eps_;
};

/// MLX has no op for it; the formula is torch.nn.functional.gelu's default, x·Φ(x).
mx::array composed_gelu(const mx::array& x, const mx::Stream& stream) {
  const mx::array scaled =
      mx::multiply(x, mx::array(static_cast<float>(M_SQRT1_2), x.dtype()), stream);
  const mx::array cdf_twice = mx::add(mx::erf(scaled, stream), mx::array(1.0f, x.dtype()), stream);
  const mx::array half = mx::multiply(x, mx::array(0.5f, x.dtype()), stream);
  return mx::multiply(half, cdf_twice, stream);
}

bool is_parameter(const std::optional<mx::array>& parameter, const mx::Stream& stream, int size) {
  return !parameter ||
         (can_fuse(stream, {*parameter}) && parameter->ndim() == 1 && parameter->shape(0) == size);
}

}  // namespace

mx::array softmax(const mx::array& x, const std::vector<int>& axes, bool precise,
                  mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const bool last_axis = axes.size() == 1 && x.ndim() > 0 &&
                         (axes[0] == -1 || axes[0] == static_cast<int>(x.ndim()) - 1);
  if (!last_axis || !can_fuse(stream, {x})) {
    return mx::softmax(x, axes, precise, stream);
  }
  auto composed = [axes, precise, stream](const std::vector<mx::array>& inputs) {
    return std::vector<mx::array>{mx::softmax(inputs[0], axes, precise, stream)};
  };
  return mx::array(x.shape(), mx::float32, std::make_shared<Softmax>(stream, std::move(composed)),
                   {x});
}

mx::array gelu(const mx::array& given, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const mx::array x = inexact(given, stream);
  if (!can_fuse(stream, {x})) {
    return composed_gelu(x, stream);
  }
  auto composed = [stream](const std::vector<mx::array>& inputs) {
    return std::vector<mx::array>{composed_gelu(inputs[0], stream)};
  };
  return mx::array(x.shape(), mx::float32, std::make_shared<Gelu>(stream, std::move(composed)),
                   {x});
}

mx::array layer_norm(const mx::array& x, const std::optional<mx::array>& weight,
                     const std::optional<mx::array>& bias, float eps, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  if (x.ndim() == 0 || !can_fuse(stream, {x}) || !is_parameter(weight, stream, x.shape(-1)) ||
      !is_parameter(bias, stream, x.shape(-1))) {
    return mx::fast::layer_norm(x, weight, bias, eps, stream);
  }
  std::vector<mx::array> inputs{x};
  if (weight) {
    inputs.push_back(*weight);
  }
  if (bias) {
    inputs.push_back(*bias);
  }
  auto composed = [has_weight = weight.has_value(), has_bias = bias.has_value(), eps,
                   stream](const std::vector<mx::array>& in) {
    const auto w = has_weight ? std::optional(in[1]) : std::nullopt;
    const auto b = has_bias ? std::optional(in[has_weight ? 2 : 1]) : std::nullopt;
    return std::vector<mx::array>{mx::fast::layer_norm(in[0], w, b, eps, stream)};
  };
  return mx::array(x.shape(), mx::float32,
                   std::make_shared<LayerNorm>(stream, std::move(composed), weight.has_value(),
                                               bias.has_value(), eps),
                   std::move(inputs));
}

}  // namespace mlx_runners::cpu
