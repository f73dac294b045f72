// Rows of mlx/fast.h.
#include "mlx/fast.h"

#include "core/errors.h"
#include "kernels/cpu/primitives.h"
#include "ops/indices.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using Maybe = std::optional<array>;
using S = mx::StreamOrDevice;

// Positions are int32 in the end: what lies outside would wrap.
void check_offset(const IntOrArray& offset, S s) {
  const auto* positions = std::get_if<array>(&offset);
  if (!positions || !mx::issubdtype(positions->dtype(), mx::integer)) return;
  if (const auto outside = value_outside(*positions, size_t{1} << 31, s)) {
    throw CodedError("SHAPE", "an offset of " + *outside + " is outside the range of int32");
  }
}

array rope(const array& x, int dims, bool traditional, std::optional<float> base, float scale,
           const IntOrArray& offset, const Maybe& freqs, S s) {
  check_offset(offset, s);
  return std::visit(
      [&](const auto& start) {
        return mx::fast::rope(x, dims, traditional, base, scale, start, freqs, s);
      },
      offset);
}
array rope_on_cpu(const array& x, int dims, bool traditional, std::optional<float> base,
                  float scale, const IntOrArray& offset, const Maybe& freqs, S s) {
  check_offset(offset, s);
  return cpu::rope(x, dims, traditional, base, scale, offset, freqs, s);
}

constexpr const char* mask_modes = "|causal|array";

}  // namespace

std::vector<Op> fast_rows() {
  return {
      op("layerNorm", "Layer normalisation over the last axis.", mx::fast::layer_norm, arg("x"),
         opt("weight", none), opt("bias", none), opt("eps", 1e-5f))
          .on_cpu(cpu::layer_norm),
      op("rmsNorm", "Root-mean-square normalisation over the last axis.", mx::fast::rms_norm,
         arg("x"), opt("weight", none), opt("eps", 1e-5f))
          .on_cpu(cpu::rms_norm),
      op("addRmsNorm",
         "[x + residual, rmsNorm(x + residual)], of x and residual of one shape: a residual "
         "connection and the norm that follows it.",
         cpu::add_rms_norm, arg("x"), arg("residual"), opt("weight", none), opt("eps", 1e-5f)),
      op("swiglu",
         "silu(gate) · up, of operands of one shape; silu(x) = x · sigmoid(x). Halves of one array "
         "are read in place.",
         cpu::swiglu, arg("gate"), arg("up")),
      op("geglu",
         "gelu(gate) · up, of operands of one shape; gelu by tanh, as in Gemma, or exactly. Halves "
         "of one array are read in place.",
         cpu::geglu, arg("gate"), arg("up"), opt("approximate", true)),
      op("rope",
         "Rotary position embedding of the last axis' first `dims` elements, for x [..., T, D] "
         "with "
         "at least 3 axes. Give `base`, or `freqs` [dims / 2], whose reciprocals then are the "
         "angles of a position. `offset` is the position of the first row: a number, or an array "
         "of "
         "integers, within 32 bits, with one for all or for each of the first axis. `traditional` "
         "turns neighbours (2i, 2i + 1), else i and i + dims / 2 belong together.",
         rope, arg("x"), arg("dims"), opt("traditional", false), opt("base", none),
         opt("scale", 1.0f), opt("offset", 0), opt("freqs", none))
          .on_cpu(rope_on_cpu),
      op("scaledDotProductAttention",
         "softmax(q · kᵀ · scale + mask) · v for q [B, H, T, D], k and v [B, H_kv, T_kv, D], where "
         "H is a multiple of H_kv; maskMode is '', 'causal' (query i sees keys j ≤ i + T_kv − T) "
         "or 'array'. A mask, boolean or added, broadcasts to [B, H, T, T_kv]. `sinks` [H] are "
         "scores of one more key for each head, without a value. Slices of a cache are read in "
         "place. A query from which everything is hidden gives the mean of all values; NaN where "
         "the mask adds -Infinity throughout; 0 with sinks, and where there are no keys at all.",
         cpu::scaled_dot_product_attention, arg("q"), arg("k"), arg("v"), arg("scale"),
         opt("maskMode", "").one_of(mask_modes), opt("mask", none), opt("sinks", none)),
      op("attention",
         "scaledDotProductAttention with two things more. `window`: query i sees only keys j > i + "
         "T_kv − T − window, whatever else hides some; with 'causal' these are the last `window` "
         "ones. 0 is no window. `softcap`: before masks scores become softcap · tanh(score / "
         "softcap), as in Gemma 2. 0 is no cap.",
         cpu::attention, arg("q"), arg("k"), arg("v"), arg("scale"),
         opt("maskMode", "").one_of(mask_modes), opt("mask", none), opt("sinks", none),
         opt("window", 0), opt("softcap", 0.0f)),
  };
}

}  // namespace mlx_runners
