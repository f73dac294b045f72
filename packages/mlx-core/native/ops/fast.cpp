// Rows of mlx/fast.h.
#include "mlx/fast.h"

#include "kernels/cpu/primitives.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using Maybe = std::optional<array>;
using S = mx::StreamOrDevice;

array rope(const array& x, int dims, bool traditional, std::optional<float> base, float scale,
           int offset, const Maybe& freqs, S s) {
  return mx::fast::rope(x, dims, traditional, base, scale, offset, freqs, s);
}

array attention(const array& q, const array& k, const array& v, float scale,
                const std::string& mask_mode, Maybe mask, const Maybe& sinks, S s) {
  return mx::fast::scaled_dot_product_attention(q, k, v, scale, mask_mode, mask, sinks, false, s);
}

}  // namespace

std::vector<Op> fast_rows() {
  return {
      op("layerNorm", "Layer normalisation over the last axis.", mx::fast::layer_norm, arg("x"),
         opt("weight", none), opt("bias", none), opt("eps", 1e-5f))
          .on_cpu(cpu::layer_norm),
      op("rmsNorm", "Root-mean-square normalisation over the last axis.", mx::fast::rms_norm,
         arg("x"), opt("weight", none), opt("eps", 1e-5f)),
      op("rope", "Rotary position embedding of the last axis' first `dims` elements.", rope,
         arg("x"), arg("dims"), opt("traditional", false), opt("base", none), opt("scale", 1.0f),
         opt("offset", 0), opt("freqs", none)),
      op("scaledDotProductAttention",
         "softmax(q · kᵀ · scale + mask) · v for q [B, H, T, D], k and v [B, H_kv, T_kv, D]; "
         "maskMode is '', 'causal' or 'array'.",
         attention, arg("q"), arg("k"), arg("v"), arg("scale"), opt("maskMode", ""),
         opt("mask", none), opt("sinks", none))
          .on_cpu(cpu::scaled_dot_product_attention),
  };
}

}  // namespace mlx_runners
