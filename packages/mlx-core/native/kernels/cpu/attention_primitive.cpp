// Attention as an MLX primitive.
#include <stdexcept>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_operands.h"
#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

class Attend : public FusedPrimitive {
 public:
  Attend(mx::Stream stream, Composed composed, AttentionOptions options, bool has_mask,
         bool has_sinks)
      : FusedPrimitive(stream, std::move(composed)),
        options_(std::move(options)),
        has_mask_(has_mask),
        has_sinks_(has_sinks) {}
  DEFINE_NAME(FusedAttention)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.back() = inputs[2].shape(-1);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    Attention op = attention_operands(options_, inputs, stream(), out);
    if (has_mask_) {
      set_mask(op, inputs[3]);
    }
    if (has_sinks_) {
      op.sinks = row_contiguous(inputs.back(), stream()).data<float>();
    }
    dispatch(stream(), [op, batches = out.shape(0)] { attention(op, batches); });
  }

 private:
  static void set_mask(Attention& op, const mx::array& mask) {
    op.mask = mask.data<void>();
    op.mask_kind = mask.dtype() == mx::bool_ ? MaskKind::kBoolean : MaskKind::kAdditive;
    // Broadcasting: missing and single axes don't move.
    const int missing = 4 - static_cast<int>(mask.ndim());
    for (int axis = missing; axis < 4; ++axis) {
      op.mask_strides[axis] = mask.shape(axis - missing) == 1 ? 0 : mask.strides(axis - missing);
    }
  }

  AttentionOptions options_;
  bool has_mask_;
  bool has_sinks_;
};

bool are_attention_shapes(const mx::array& q, const mx::array& k, const mx::array& v) {
  return q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && k.shape(0) == q.shape(0) &&
         v.shape(0) == q.shape(0) && k.shape(1) == v.shape(1) && q.shape(1) % k.shape(1) == 0 &&
         k.shape(2) == v.shape(2) && q.shape(3) == k.shape(3);
}

bool is_mask(const mx::array& mask, const mx::array& q, const mx::array& k) {
  const bool known = mask.dtype() == mx::bool_ || mask.dtype() == mx::float32;
  if (!known || mask.ndim() > 4 || mask.is_tracer()) {
    return false;
  }
  const int full[4] = {q.shape(0), q.shape(1), q.shape(2), k.shape(2)};
  const int missing = 4 - static_cast<int>(mask.ndim());
  for (int axis = missing; axis < 4; ++axis) {
    const int size = mask.shape(axis - missing);
    if (size != 1 && size != full[axis]) {
      return false;
    }
  }
  return true;
}

bool are_sinks(const mx::array& sinks, const mx::array& q, const mx::Stream& stream) {
  return can_fuse(stream, {sinks}) && sinks.ndim() == 1 && sinks.shape(0) == q.shape(1);
}

}  // namespace

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    const std::string& mask_mode, std::optional<mx::array> mask,
                    const std::optional<mx::array>& sinks, int window, float softcap,
                    mx::StreamOrDevice s) {
  if (window < 0 || !(softcap >= 0)) {
    throw std::invalid_argument("[attention] window and softcap have to be 0 (none) or positive.");
  }
  // By these MLX divides, too.
  if (k.ndim() == 4 && k.shape(1) == 0) {
    throw std::invalid_argument("[attention] k and v have to have at least one head.");
  }
  const mx::Stream stream = mx::to_stream(s);
  const AttentionOptions options{scale, mask_mode, window, softcap};
  const bool known_mode =
      mask_mode.empty() || (mask_mode == "array" && mask) || (options.causal() && !mask);
  if (!known_mode || !can_fuse(stream, {q, k, v}) || !are_attention_shapes(q, k, v) ||
      (mask && !is_mask(*mask, q, k)) || (sinks && !are_sinks(*sinks, q, stream))) {
    return composed_attention(q, k, v, options, mask, sinks, stream);
  }
  std::vector<mx::array> inputs{q, k, v};
  if (mask) {
    inputs.push_back(*mask);
  }
  if (sinks) {
    inputs.push_back(*sinks);
  }
  auto composed = [options, has_mask = mask.has_value(), has_sinks = sinks.has_value(),
                   stream](const std::vector<mx::array>& in) {
    const auto m = has_mask ? std::optional(in[3]) : std::nullopt;
    const auto column = has_sinks ? std::optional(in.back()) : std::nullopt;
    return std::vector<mx::array>{
        composed_attention(in[0], in[1], in[2], options, m, column, stream)};
  };
  mx::Shape shape = q.shape();
  shape.back() = v.shape(-1);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<Attend>(stream, std::move(composed), options, mask.has_value(),
                                            sinks.has_value()),
                   std::move(inputs));
}

mx::array scaled_dot_product_attention(const mx::array& q, const mx::array& k, const mx::array& v,
                                       float scale, const std::string& mask_mode,
                                       std::optional<mx::array> mask,
                                       const std::optional<mx::array>& sinks,
                                       mx::StreamOrDevice s) {
  return attention(q, k, v, scale, mask_mode, std::move(mask), sinks, 0, 0.0f, s);
}

}  // namespace mlx_runners::cpu
