// Rotary position embedding as an MLX primitive.
#include <algorithm>

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/rope.h"
#include "mlx/fast.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

using Maybe = std::optional<mx::array>;
using Offset = std::variant<int, mx::array>;

struct RopeOptions {
  int dims;
  bool traditional;
  std::optional<float> base;
  float scale;
};

/// The three strides of [B, H, T, D], or of [B, T, D] as one head.
void copy_strides(const mx::array& x, int64_t* strides) {
  const bool has_heads = x.ndim() == 4;
  strides[0] = x.strides(0);
  strides[1] = has_heads ? x.strides(1) : 0;
  strides[2] = x.strides(has_heads ? 2 : 1);
}

class RotaryEmbedding : public FusedPrimitive {
 public:
  /// `offset` is a number here, or one of the inputs after x; freqs are the last of them.
  RotaryEmbedding(mx::Stream stream, Composed composed, RopeOptions options,
                  std::optional<int> offset)
      : FusedPrimitive(stream, std::move(composed)), options_(options), offset_(offset) {}
  DEFINE_NAME(FusedRope)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array& given = inputs[0];
    if (given.flags().contiguous && given.strides(-1) == 1 && can_reuse(given)) {
      out.copy_shared_buffer(given);
    } else if (given.ndim() == 4) {
      allocate_heads_like(given, out);
    } else {
      allocate(out);
    }
    const mx::array x = contiguous_rows(given, stream());
    Rope op{};
    op.x = x.data<float>();
    op.y = out.data<float>();
    op.heads = x.ndim() == 4 ? x.shape(1) : 1;
    op.positions = x.shape(-2);
    op.columns = x.shape(-1);
    copy_strides(x, op.x_strides);
    copy_strides(out, op.y_strides);
    op.dims = options_.dims;
    op.traditional = options_.traditional;
    op.base = options_.base.value_or(0.0f);
    op.freqs = options_.base ? nullptr : row_contiguous(inputs.back(), stream()).data<float>();
    op.scale = options_.scale;
    if (offset_) {
      op.offset = *offset_;
    } else {
      op.offsets = inputs[1].data<int32_t>();
      op.offset_step = inputs[1].size() == 1 ? 0 : inputs[1].strides(0);
    }
    dispatch(stream(), [op, batches = x.shape(0)] { rope(op, batches); });
  }

 private:
  RopeOptions options_;
  std::optional<int> offset_;
};

mx::array composed_rope(const mx::array& x, const RopeOptions& options, const Offset& offset,
                        const Maybe& freqs, const mx::Stream& stream) {
  return std::visit(
      [&](const auto& start) {
        return mx::fast::rope(x, options.dims, options.traditional, options.base, options.scale,
                              start, freqs, stream);
      },
      offset);
}

/// Whether these are the frequencies of the kernel, if any.
bool are_freqs(const Maybe& freqs, int dims, const mx::Stream& stream) {
  return !freqs ||
         (can_fuse(stream, {*freqs}) && freqs->ndim() == 1 && freqs->shape(0) == dims / 2);
}

bool is_offset(const Offset& offset, const mx::array& x) {
  const auto* array = std::get_if<mx::array>(&offset);
  return array == nullptr ||
         (mx::issubdtype(array->dtype(), mx::integer) && !array->is_tracer() &&
          (array->ndim() == 0 ||
           (array->ndim() == 1 && (array->shape(0) == 1 || array->shape(0) == x.shape(0)))));
}

}  // namespace

mx::array rope(const mx::array& x, int dims, bool traditional, std::optional<float> base,
               float scale, const Offset& offset, const Maybe& freqs, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const RopeOptions options{dims, traditional, base, scale};
  const bool plain = can_fuse(stream, {x}) && (x.ndim() == 3 || x.ndim() == 4) && dims > 0 &&
                     dims % 2 == 0 && dims <= x.shape(-1) && base.has_value() != freqs.has_value();
  if (!plain || !are_freqs(freqs, dims, stream) || !is_offset(offset, x)) {
    return composed_rope(x, options, offset, freqs, stream);
  }
  std::vector<mx::array> inputs{x};
  std::optional<int> number;
  if (const auto* array = std::get_if<mx::array>(&offset)) {
    inputs.push_back(mx::astype(*array, mx::int32, stream));
  } else {
    number = std::get<int>(offset);
  }
  if (freqs) {
    inputs.push_back(*freqs);
  }
  auto composed = [options, number, has_freqs = freqs.has_value(),
                   stream](const std::vector<mx::array>& in) {
    const Offset start = number ? Offset(*number) : Offset(in[1]);
    const auto f = has_freqs ? std::optional(in.back()) : std::nullopt;
    return std::vector<mx::array>{composed_rope(in[0], options, start, f, stream)};
  };
  return mx::array(x.shape(), mx::float32,
                   std::make_shared<RotaryEmbedding>(stream, std::move(composed), options, number),
                   std::move(inputs));
}

}  // namespace mlx_runners::cpu
