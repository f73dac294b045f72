// Rows of caches of keys and values: of those that are a program's states, and of those that are
// given to its calls.
#include "lm/kv_cache.h"

#include <algorithm>

#include "core/errors.h"
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"
#include "ops/rows.h"
#include "program/slice_update_in_place.h"

namespace mlx_runners {
namespace {

using mx::array;
using S = mx::StreamOrDevice;

// Writes x's rows from slot position % S on, and from slot 0 on what goes beyond the last.
template <class SliceUpdate>
array update(const array& cache, const array& x, int position, S s, SliceUpdate slice_update) {
  if (position < 0) throw CodedError("SHAPE", "position has to be 0 or more");
  const bool fit = cache.ndim() == 4 && x.ndim() == 4 && x.shape(0) == cache.shape(0) &&
                   x.shape(1) == cache.shape(1) && x.shape(2) <= cache.shape(2) &&
                   x.shape(3) == cache.shape(3);
  if (!fit) {
    throw CodedError("SHAPE",
                     "the shapes have to be cache [B, H, S, D] and x [B, H, T, D], T at most S");
  }
  const int rows = x.shape(2);
  if (rows == 0) return cache;
  const int first = position % cache.shape(2);
  const int before_wrap = std::min(rows, cache.shape(2) - first);
  const array cast = mx::astype(x, cache.dtype(), s);
  const auto write = [&](const array& to, int from, int until, int slot) {
    const mx::Shape& shape = x.shape();
    const array part = mx::slice(cast, {0, 0, from, 0}, {shape[0], shape[1], until, shape[3]}, s);
    return slice_update(to, part, mx::Shape{0, 0, slot, 0},
                        mx::Shape{shape[0], shape[1], slot + until - from, shape[3]}, s);
  };
  const array written = write(cache, 0, before_wrap, first);
  return before_wrap == rows ? written : write(written, before_wrap, rows, 0);
}

array kv_cache_update(const array& cache, const array& x, int position, S s) {
  return update(cache, x, position, s, [](auto&&... arguments) {
    return mx::slice_update(std::forward<decltype(arguments)>(arguments)...);
  });
}
array kv_cache_update_in_place(const array& cache, const array& x, int position, S s) {
  return update(cache, x, position, s, program::slice_update_in_place);
}

array update_and_attend(const array& q, const array& k, const array& v, const IntOrArray& position,
                        int layer, float scale, int window, float softcap, int heads, int kv_heads,
                        int dims, bool traditional, std::optional<float> base, float position_scale,
                        const std::optional<array>& freqs, S s) {
  if (window < 0 || !(softcap >= 0)) {
    throw CodedError("SHAPE", "window and softcap have to be 0 (none) or positive");
  }
  if (layer < 0) throw CodedError("SHAPE", "layer has to be a cache's number, from 0");
  const lm::LayerTokens tokens{q,
                               k,
                               v,
                               position,
                               layer,
                               scale,
                               window,
                               softcap,
                               heads,
                               kv_heads,
                               {dims, traditional, base, position_scale, freqs}};
  const mx::Stream stream = mx::to_stream(s);
  if (lm::KvStep* step = lm::KvStep::current()) return step->attend(tokens, stream);
  lm::check_form(tokens);
  const lm::LayerTokens split = lm::split_and_rotated(tokens, stream);
  const array attended = cpu::attention(split.q, split.k, split.v, scale, "causal", std::nullopt,
                                        std::nullopt, window, softcap, stream);
  return lm::in_form_of(tokens, attended, stream);
}

}  // namespace

std::vector<Op> kv_cache_rows() {
  return {
      op("kvCacheUpdate",
         "A copy of a cache [B, H, S, D] with the rows of x [B, H, T, D], T at most S, in its "
         "slots: row i in slot (position + i) mod S. A program writes into a state in place.",
         kv_cache_update, arg("cache"), arg("x"), arg("position"))
          .updating(kv_cache_update_in_place),
      op("kvCacheAttention",
         "Causal attention over a cache that kvCacheUpdate wrote, up to the last query's position: "
         "q [B, H, T, D], of positions from `position` on, keys [B, H_kv, S, D] and values "
         "[B, H_kv, S, D_v] give [B, H, T, D_v]. `window` and `softcap` as in attention: a query "
         "sees the last `window` positions, its own included, or all with 0. The cache has to hold "
         "what the queries see: at least position + T slots, or window + T − 1.",
         cpu::kv_cache_attention, arg("q"), arg("keys"), arg("values"), arg("position"),
         arg("scale"), opt("window", 0), opt("softcap", 0.0f)),
      op("updateAndAttend",
         "Adds keys and values to a layer of the cache that is given to the call of a program, and "
         "attends: q [B, H, T, D], k [B, H_kv, T, D] and v [B, H_kv, T, D_v] give [B, H, T, D_v]. "
         "A query sees what its sequence has up to its own token, with `window` only the last "
         "`window` of that; `softcap` as in attention. `position` is that of the first token, or "
         "of "
         "each of the batch's, int32 [B], where the cache holds many sequences; `layer` is the "
         "number of the cache's layer, which layers that share keys and values may name in turn, "
         "with the same k and v. Without a cache there is nothing before these tokens. "
         "With `heads` and `kvHeads` the heads lie side by side, as projections give them: q "
         "[B, T, heads · D], k [B, T, kvHeads · D] and v [B, T, kvHeads · D_v] give "
         "[B, T, heads · D_v]; those of four axes are taken as split. With `dims` q and k are "
         "rotated, as rope does from `position` on, whose `scale` is `positionScale` here; "
         "without, "
         "they come rotated.",
         update_and_attend, arg("q"), arg("k"), arg("v"), arg("position"), arg("layer"),
         arg("scale"), opt("window", 0), opt("softcap", 0.0f), opt("heads", 0), opt("kvHeads", 0),
         opt("dims", 0), opt("traditional", false), opt("base", none), opt("positionScale", 1.0f),
         opt("freqs", none)),
  };
}

}  // namespace mlx_runners
