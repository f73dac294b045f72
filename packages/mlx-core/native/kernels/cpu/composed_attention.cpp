#include "kernels/cpu/composed_attention.h"

#include <utility>

#include "mlx/fast.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

using Maybe = std::optional<mx::array>;

/// Booleans [queries, keys]: what the causal mask and the window leave.
mx::array visible_keys(int queries, int keys, const AttentionOptions& options,
                       const mx::Stream& stream) {
  const mx::array query = mx::expand_dims(mx::arange(keys - queries, keys, stream), 1, stream);
  const mx::array key = mx::arange(keys, stream);
  mx::array visible = mx::array(true);
  if (options.causal()) {
    visible = mx::less_equal(key, query, stream);
  }
  if (options.window > 0) {
    const mx::array before = mx::subtract(query, mx::array(options.window), stream);
    visible = mx::logical_and(visible, mx::greater(key, before, stream), stream);
  }
  return visible;
}

/// As MLX: the lowest finite number hides a key.
mx::array hide(const mx::array& visible, const mx::array& scores, const mx::Stream& stream) {
  const mx::array lowest(mx::finfo(scores.dtype()).min, scores.dtype());
  return mx::where(visible, scores, lowest, stream);
}

mx::array capped(const mx::array& q, const mx::array& k, const mx::array& v,
                 const AttentionOptions& options, const Maybe& mask, const Maybe& sinks,
                 const mx::Stream& stream) {
  const int batches = q.shape(0);
  const int queries = q.shape(2);
  const int keys = k.shape(2);
  const int kv_heads = k.shape(1);
  const int group = q.shape(1) / kv_heads;
  const auto grouped = [&](const mx::array& x) {
    return mx::reshape(x, {batches, kv_heads, group, x.shape(2), x.shape(3)}, stream);
  };
  const mx::array scaled = mx::multiply(q, mx::array(options.scale, q.dtype()), stream);
  const mx::array k_transposed = mx::swapaxes(mx::expand_dims(k, 2, stream), -1, -2, stream);
  mx::array scores = mx::matmul(grouped(scaled), k_transposed, stream);
  const mx::array cap(options.softcap, scores.dtype());
  scores = mx::multiply(cap, mx::tanh(mx::divide(scores, cap, stream), stream), stream);
  if (mask) {
    const mx::array all =
        grouped(mx::broadcast_to(*mask, {batches, q.shape(1), queries, keys}, stream));
    scores = mask->dtype() == mx::bool_ ? hide(all, scores, stream) : mx::add(scores, all, stream);
  }
  if (sinks) {
    mx::array column = mx::reshape(*sinks, {1, kv_heads, group, 1, 1}, stream);
    column = mx::broadcast_to(column, {batches, kv_heads, group, queries, 1}, stream);
    scores = mx::concatenate({scores, mx::astype(column, scores.dtype(), stream)}, -1, stream);
  }
  mx::array weights = mx::softmax(scores, -1, true, stream);
  if (sinks) {
    weights =
        mx::slice(weights, {0, 0, 0, 0, 0}, {batches, kv_heads, group, queries, keys}, stream);
  }
  const mx::array out = mx::matmul(weights, mx::expand_dims(v, 2, stream), stream);
  return mx::flatten(out, 1, 2, stream);
}

}  // namespace

mx::array composed_attention(const mx::array& q, const mx::array& k, const mx::array& v,
                             const AttentionOptions& options, Maybe mask, const Maybe& sinks,
                             const mx::Stream& stream) {
  // Also what checks the arguments: nothing of it is computed unless it is the result.
  const mx::array plain = mx::fast::scaled_dot_product_attention(
      q, k, v, options.scale, options.mask_mode, mask, sinks, false, stream);
  if (options.window == 0 && options.softcap == 0) {
    return plain;
  }
  if (options.causal() || options.window > 0) {
    const mx::array visible = visible_keys(q.shape(2), k.shape(2), options, stream);
    if (!mask) {
      mask = visible;
    } else if (mask->dtype() == mx::bool_) {
      mask = mx::logical_and(*mask, visible, stream);
    } else {
      mask = hide(visible, *mask, stream);
    }
  }
  if (options.softcap > 0) {
    return capped(q, k, v, options, mask, sinks, stream);
  }
  return mx::fast::scaled_dot_product_attention(q, k, v, options.scale, "array", mask, sinks, false,
                                                stream);
}

}  // namespace mlx_runners::cpu
