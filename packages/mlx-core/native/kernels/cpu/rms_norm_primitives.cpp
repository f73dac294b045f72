// rms_norm and add_rms_norm as MLX primitives.
#include <sstream>
#include <stdexcept>

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/rows.h"
#include "mlx/fast.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

using Maybe = std::optional<mx::array>;

class RmsNorm : public FusedPrimitive {
 public:
  RmsNorm(mx::Stream stream, Composed composed, float eps)
      : FusedPrimitive(stream, std::move(composed)), eps_(eps) {}
  DEFINE_NAME(FusedRmsNorm)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array x = share_layout(inputs[0], out, stream());
    const int64_t columns = x.shape(-1);
    const int64_t rows = static_cast<int64_t>(out.data_size()) / columns;
    const float* weight =
        inputs.size() > 1 ? row_contiguous(inputs[1], stream()).data<float>() : nullptr;
    dispatch(stream(), [from = x.data<float>(), weight, eps = eps_, to = out.data<float>(), rows,
                        columns] { rms_norm_rows(from, weight, eps, to, rows, columns); });
  }

 private:
  float eps_;
};

class AddRmsNorm : public FusedPrimitive {
 public:
  AddRmsNorm(mx::Stream stream, Composed composed, float eps)
      : FusedPrimitive(stream, std::move(composed)), eps_(eps) {}
  DEFINE_NAME(FusedAddRmsNorm)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape(), inputs[0].shape()};
  }

  using FusedPrimitive::eval_cpu;
  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    mx::array& sum = outputs[0];
    mx::array& y = outputs[1];
    take_or_allocate(inputs[0], sum);
    take_or_allocate(inputs[1], y);
    const mx::array x = row_contiguous(inputs[0], stream());
    const mx::array residual = row_contiguous(inputs[1], stream());
    const int64_t columns = x.shape(-1);
    const int64_t rows = static_cast<int64_t>(x.size()) / columns;
    const float* weight =
        inputs.size() > 2 ? row_contiguous(inputs[2], stream()).data<float>() : nullptr;
    dispatch(stream(), [a = x.data<float>(), b = residual.data<float>(), weight, eps = eps_,
                        sum = sum.data<float>(), y = y.data<float>(), rows,
                        columns] { add_rms_norm_rows(a, b, weight, eps, sum, y, rows, columns); });
  }

 private:
  static void take_or_allocate(const mx::array& from, mx::array& out) {
    if (from.flags().row_contiguous && can_reuse(from)) {
      out.copy_shared_buffer(from);
    } else {
      allocate(out);
    }
  }

  float eps_;
};

bool is_weight(const Maybe& weight, const mx::array& x, const mx::Stream& stream) {
  return !weight ||
         (can_fuse(stream, {*weight}) && weight->ndim() == 1 && weight->shape(0) == x.shape(-1));
}

std::vector<mx::array> composed_add_rms_norm(const mx::array& x, const mx::array& residual,
                                             const Maybe& weight, float eps,
                                             const mx::Stream& stream) {
  const mx::array sum = mx::add(x, residual, stream);
  return {sum, mx::fast::rms_norm(sum, weight, eps, stream)};
}

}  // namespace

mx::array rms_norm(const mx::array& x, const Maybe& weight, float eps, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  if (x.ndim() == 0 || !can_fuse(stream, {x}) || !is_weight(weight, x, stream)) {
    return mx::fast::rms_norm(x, weight, eps, stream);
  }
  std::vector<mx::array> inputs{x};
  if (weight) {
    inputs.push_back(*weight);
  }
  auto composed = [eps, stream](const std::vector<mx::array>& in) {
    const auto w = in.size() > 1 ? std::optional(in[1]) : std::nullopt;
    return std::vector<mx::array>{mx::fast::rms_norm(in[0], w, eps, stream)};
  };
  return mx::array(x.shape(), mx::float32,
                   std::make_shared<RmsNorm>(stream, std::move(composed), eps), std::move(inputs));
}

std::vector<mx::array> add_rms_norm(const mx::array& x, const mx::array& residual,
                                    const Maybe& weight, float eps, mx::StreamOrDevice s) {
  if (x.shape() != residual.shape()) {
    std::ostringstream message;
    message << "[add_rms_norm] x and residual have to be of one shape, not " << x.shape() << " and "
            << residual.shape() << ".";
    throw std::invalid_argument(message.str());
  }
  const mx::Stream stream = mx::to_stream(s);
  if (x.ndim() == 0 || !can_fuse(stream, {x, residual}) || !is_weight(weight, x, stream)) {
    return composed_add_rms_norm(x, residual, weight, eps, stream);
  }
  std::vector<mx::array> inputs{x, residual};
  if (weight) {
    inputs.push_back(*weight);
  }
  auto composed = [eps, stream](const std::vector<mx::array>& in) {
    const auto w = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
    return composed_add_rms_norm(in[0], in[1], w, eps, stream);
  };
  return mx::array::make_arrays({x.shape(), x.shape()}, {mx::float32, mx::float32},
                                std::make_shared<AddRmsNorm>(stream, std::move(composed), eps),
                                std::move(inputs));
}

}  // namespace mlx_runners::cpu
