#include "kernels/cpu/attention_operands.h"

#include <algorithm>

#include "kernels/cpu/fused_primitive.h"

namespace mlx_runners::cpu {

HeadRows::HeadRows(mlx::core::array x, int64_t side_by_side)
    : data(x.data<float>()), batches(x.shape(0)) {
  if (x.ndim() == 4) {
    heads = x.shape(1);
    positions = x.shape(2);
    size = x.shape(3);
    std::copy_n(x.strides().begin(), 3, strides);
  } else {
    heads = side_by_side;
    positions = x.shape(1);
    size = x.shape(2) / heads;
    strides[0] = x.strides(0);
    strides[1] = size;
    strides[2] = x.strides(1);
  }
}

Attention attention_operands(const AttentionOptions& options, const HeadRows& q, const HeadRows& k,
                             const HeadRows& v, const HeadRows& out) {
  Attention op{};
  op.q = q.data;
  op.k = k.data;
  op.v = v.data;
  op.out = out.data;
  op.causal = options.causal();
  op.window = options.window;
  op.softcap = options.softcap;
  op.scale = options.scale;
  op.heads = q.heads;
  op.kv_heads = k.heads;
  op.queries = q.positions;
  op.keys = k.positions;
  op.dim = q.size;
  op.value_dim = v.size;
  std::copy_n(q.strides, 3, op.q_strides);
  std::copy_n(k.strides, 3, op.k_strides);
  std::copy_n(v.strides, 3, op.v_strides);
  std::copy_n(out.strides, 3, op.out_strides);
  return op;
}

Attention attention_operands(const AttentionOptions& options,
                             const std::vector<mlx::core::array>& inputs,
                             const mlx::core::Stream& stream, mlx::core::array& out) {
  const mlx::core::array q = contiguous_rows(inputs[0], stream);
  const mlx::core::array k = contiguous_rows(inputs[1], stream);
  const mlx::core::array v = contiguous_rows(inputs[2], stream);
  allocate_heads_like(q, out);
  return attention_operands(options, HeadRows(q), HeadRows(k), HeadRows(v), HeadRows(out));
}

}  // namespace mlx_runners::cpu
