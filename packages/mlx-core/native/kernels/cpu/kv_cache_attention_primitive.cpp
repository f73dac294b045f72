// Attention over a cache of a fixed number of slots as an MLX primitive.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_operands.h"
#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

/// The part of a cache that queries see, oldest first: slots [first, first + count) modulo all.
struct LivePart {
  int first;
  int count;
};

LivePart live_part(const mx::array& q, const mx::array& keys, int position, int window) {
  const int64_t end = int64_t{position} + q.shape(2);
  const int64_t begin = window > 0 ? std::max<int64_t>(0, int64_t{position} - window + 1) : 0;
  const int slots = keys.shape(2);
  if (end - begin > slots) {
    throw std::invalid_argument("[kvCacheAttention] the queries see " +
                                std::to_string(end - begin) + " positions, and the cache has " +
                                std::to_string(slots) + " slots.");
  }
  return {static_cast<int>(begin % slots), static_cast<int>(end - begin)};
}

class KvCacheAttend : public FusedPrimitive {
 public:
  KvCacheAttend(mx::Stream stream, Composed composed, AttentionOptions options, LivePart live)
      : FusedPrimitive(stream, std::move(composed)), options_(std::move(options)), live_(live) {}
  DEFINE_NAME(KvCacheAttention)

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.back() = inputs[2].shape(-1);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    Attention op = attention_operands(options_, inputs, stream(), out);
    op.k += live_.first * op.k_strides[2];
    op.v += live_.first * op.v_strides[2];
    op.keys = live_.count;
    const int slots = inputs[1].shape(2);
    dispatch(stream(), [op, batches = out.shape(0), wrap = slots - live_.first, slots] {
      if (wrap >= op.keys) {
        attention(op, batches);
      } else {
        ring_attention(op, batches, wrap, slots);
      }
    });
  }

 private:
  AttentionOptions options_;
  LivePart live_;
};

/// The live slots of a cache in their order, without a copy where they lie so.
mx::array in_order(const mx::array& cache, const LivePart& live, const mx::Stream& stream) {
  const auto slots = [&](int begin, int end) {
    mx::Shape stop = cache.shape();
    stop[2] = end;
    return mx::slice(cache, {0, 0, begin, 0}, stop, stream);
  };
  const int end = live.first + live.count;
  if (end <= cache.shape(2)) {
    return slots(live.first, end);
  }
  return mx::concatenate({slots(live.first, cache.shape(2)), slots(0, end - cache.shape(2))}, 2,
                         stream);
}

void check(const mx::array& q, const mx::array& keys, const mx::array& values, int position,
           const AttentionOptions& options) {
  if (options.window < 0 || !(options.softcap >= 0)) {
    throw std::invalid_argument(
        "[kvCacheAttention] window and softcap have to be 0 (none) or positive.");
  }
  if (position < 0) {
    throw std::invalid_argument("[kvCacheAttention] position has to be 0 or more.");
  }
  const bool fit = q.ndim() == 4 && keys.ndim() == 4 && values.ndim() == 4 &&
                   keys.shape(0) == q.shape(0) && values.shape(0) == q.shape(0) &&
                   keys.shape(1) > 0 && keys.shape(1) == values.shape(1) &&
                   q.shape(1) % keys.shape(1) == 0 && keys.shape(2) > 0 &&
                   keys.shape(2) == values.shape(2) && q.shape(3) == keys.shape(3);
  if (!fit) {
    throw std::invalid_argument(
        "[kvCacheAttention] the shapes have to be q [B, H, T, D], keys [B, H_kv, S, D] and values "
        "[B, H_kv, S, D_v], H a multiple of H_kv.");
  }
}

}  // namespace

mx::array kv_cache_attention(const mx::array& q, const mx::array& keys, const mx::array& values,
                             int position, float scale, int window, float softcap,
                             mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  const AttentionOptions options{scale, "causal", window, softcap};
  check(q, keys, values, position, options);
  const LivePart live = live_part(q, keys, position, window);
  auto composed = [options, live, stream](const std::vector<mx::array>& in) {
    return std::vector<mx::array>{composed_attention(in[0], in_order(in[1], live, stream),
                                                     in_order(in[2], live, stream), options,
                                                     std::nullopt, std::nullopt, stream)};
  };
  if (!can_fuse(stream, {q, keys, values})) {
    return composed({q, keys, values})[0];
  }
  mx::Shape shape = q.shape();
  shape.back() = values.shape(-1);
  return mx::array(std::move(shape), mx::float32,
                   std::make_shared<KvCacheAttend>(stream, std::move(composed), options, live),
                   {q, keys, values});
}

}  // namespace mlx_runners::cpu
