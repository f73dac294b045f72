// scaled_dot_product_attention as an MLX primitive.
#include <algorithm>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "mlx/fast.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

mx::array rows_in_place(const mx::array& x, const mx::Stream& stream) {
  return x.strides(-1) == 1 || x.shape(-1) == 1 ? x : row_contiguous(x, stream);
}

void copy_strides(const mx::array& x, int64_t* strides) {
  std::copy_n(x.strides().begin(), 3, strides);
}

/// [B, H, T, D] as a view of [B, T, H, D] memory: splitting heads and merging them again then
/// copies nothing.
void allocate_heads_inside(mx::array& out) {
  const int64_t heads = out.shape(1);
  const int64_t positions = out.shape(2);
  const int64_t dim = out.shape(3);
  if (heads == 1 || positions == 1) {
    allocate(out);
    return;
  }
  out.set_data(mx::allocator::malloc(out.nbytes()), out.size(),
               {positions * heads * dim, dim, heads * dim, 1},
               {.contiguous = true,
                .row_contiguous = false,
                .col_contiguous = dim == 1 && out.shape(0) == 1});
}

class Attend : public FusedPrimitive {
 public:
  Attend(mx::Stream stream, Composed composed, float scale, bool causal)
      : FusedPrimitive(stream, std::move(composed)), scale_(scale), causal_(causal) {}
  DEFINE_NAME(FusedScaledDotProductAttention)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.back() = inputs[2].shape(-1);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array q = rows_in_place(inputs[0], stream());
    const mx::array k = rows_in_place(inputs[1], stream());
    const mx::array v = rows_in_place(inputs[2], stream());
    if (q.strides(1) < q.strides(2)) {
      allocate_heads_inside(out);
    } else {
      allocate(out);
    }
    Attention op{};
    op.q = q.data<float>();
    op.k = k.data<float>();
    op.v = v.data<float>();
    op.out = out.data<float>();
    op.causal = causal_;
    op.scale = scale_;
    op.heads = q.shape(1);
    op.kv_heads = k.shape(1);
    op.queries = q.shape(2);
    op.keys = k.shape(2);
    op.dim = q.shape(3);
    op.value_dim = v.shape(3);
    copy_strides(q, op.q_strides);
    copy_strides(k, op.k_strides);
    copy_strides(v, op.v_strides);
    copy_strides(out, op.out_strides);
    if (inputs.size() > 3) {
      set_mask(op, inputs[3]);
    }
    dispatch(stream(), [op, batches = q.shape(0)] { attention(op, batches); });
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

  float scale_;
  bool causal_;
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

}  // namespace

mx::array scaled_dot_product_attention(const mx::array& q, const mx::array& k, const mx::array& v,
                                       float scale, const std::string& mask_mode,
                                       std::optional<mx::array> mask,
                                       const std::optional<mx::array>& sinks,
                                       mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const bool causal = mask_mode == "causal";
  const bool known_mode = mask_mode.empty() || mask_mode == "array" || (causal && !mask);
  if (!known_mode || sinks || !can_fuse(stream, {q, k, v}) || !are_attention_shapes(q, k, v) ||
      (mask && !is_mask(*mask, q, k))) {
    return mx::fast::scaled_dot_product_attention(q, k, v, scale, mask_mode, mask, sinks, false,
                                                  stream);
  }
  std::vector<mx::array> inputs{q, k, v};
  if (mask) {
    inputs.push_back(*mask);
  }
  auto composed = [scale, mask_mode, stream](const std::vector<mx::array>& in) {
    const auto m = in.size() > 3 ? std::optional(in[3]) : std::nullopt;
    return std::vector<mx::array>{mx::fast::scaled_dot_product_attention(
        in[0], in[1], in[2], scale, mask_mode, m, std::nullopt, false, stream)};
  };
  mx::Shape shape = q.shape();
  shape.back() = v.shape(-1);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<Attend>(stream, std::move(composed), scale, causal),
                   std::move(inputs));
}

}  // namespace mlx_runners::cpu
