#include "lm/kv_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/errors.h"
#include "core/lanes.h"
#include "lm/cached_attention.h"
#include "mlx/ops.h"

namespace mlx_runners::lm {
namespace {

thread_local KvStep* current_step = nullptr;

[[noreturn]] void refuse(const std::string& message) { throw CodedError("SHAPE", message); }

void check_shapes(const LayerTokens& tokens) {
  check_form(tokens);
  const HeadSizes q = q_sizes(tokens);
  for (const HeadSizes& other : {k_sizes(tokens), v_sizes(tokens)}) {
    if (q.batch != other.batch || q.tokens != other.tokens) {
      refuse("q, k and v have to be of the same batch and the same tokens");
    }
  }
  if (tokens.q.size() == 0 || tokens.k.size() == 0 || tokens.v.size() == 0) {
    refuse("there are no tokens");
  }
}

void check_size(int layer, const char* what, int has, int given) {
  if (has == given) return;
  refuse("layer " + std::to_string(layer) + " of the cache has " + what + " " +
         std::to_string(has) + ", and the method's " + std::to_string(given));
}

void check_layer(const LayerTokens& tokens, const std::vector<KvLayer>& layers) {
  const int number = tokens.layer;
  if (number < 0 || static_cast<size_t>(number) >= layers.size()) {
    refuse("the cache has " + std::to_string(layers.size()) + " layers, and the method's layer " +
           std::to_string(number) + " is none of them");
  }
  const KvLayer& layer = layers[number];
  const HeadSizes q = q_sizes(tokens);
  check_size(number, "kvHeads", layer.kv_heads, k_sizes(tokens).heads);
  check_size(number, "kvHeads", layer.kv_heads, v_sizes(tokens).heads);
  check_size(number, "headSize", layer.head_size, k_sizes(tokens).size);
  check_size(number, "valueSize", layer.value_size, v_sizes(tokens).size);
  check_size(number, "headSize", layer.head_size, q.size);
  if (q.heads % layer.kv_heads != 0) {
    refuse(std::to_string(q.heads) + " heads can't share " + std::to_string(layer.kv_heads) +
           " heads of keys evenly");
  }
  if (layer.window > 0 && (tokens.window == 0 || tokens.window > layer.window)) {
    const std::string seen =
        tokens.window == 0 ? "all keys" : "the last " + std::to_string(tokens.window);
    refuse("layer " + std::to_string(number) + " of the cache has a window of " +
           std::to_string(layer.window) + ", and the method's layer sees " + seen);
  }
}

bool are_float32(const LayerTokens& tokens) {
  return tokens.q.dtype() == mx::float32 && tokens.k.dtype() == mx::float32 &&
         tokens.v.dtype() == mx::float32;
}

mx::array as_float32(const mx::array& x, mx::Stream stream) {
  return x.dtype() == mx::float32 ? x : mx::astype(x, mx::float32, stream);
}

}  // namespace

KvStep::KvStep(KvCache& cache) : cache_(cache), use_(cache), added_(cache.layers().size()) {}

// What has failed may still be writing, which it must not while the next call does.
KvStep::~KvStep() {
  if (uncommitted_) drain(*uncommitted_);
}

KvStep* KvStep::current() { return current_step; }

KvScope::KvScope(KvStep* step) { current_step = step; }

KvScope::~KvScope() { current_step = nullptr; }

mx::array KvStep::attend(const LayerTokens& tokens, mx::Stream stream) {
  check_shapes(tokens);
  check_layer(tokens, cache_.layers());
  const Ids ids{tokens.k.id(), tokens.v.id()};
  std::optional<Ids>& added = added_[tokens.layer];
  if (added && *added != ids) {
    refuse("layer " + std::to_string(tokens.layer) +
           " of the cache is used twice, not with the same keys and values");
  }
  // Other floats are rotated as such.
  const bool as_given = !cache_.composes(stream) && are_float32(tokens);
  LayerTokens plain = as_given ? tokens : split_and_rotated(tokens, stream);
  for (mx::array* x : {&plain.q, &plain.k, &plain.v}) *x = as_float32(*x, stream);
  std::erase_if(attended_, [](const auto& each) { return each.second.is_available(); });
  for (const auto& [layer, before] : attended_) {
    if (layer == tokens.layer) plain.q = mx::depends({plain.q}, {before})[0];
  }
  uncommitted_ = stream;
  const mx::array attended = attend_checked(plain, added.has_value(), stream);
  attended_.emplace_back(tokens.layer, attended);
  added = ids;
  const mx::array result = as_given ? attended : in_form_of(tokens, attended, stream);
  const mx::Dtype dtype = tokens.q.dtype();
  return dtype == mx::float32 ? result : mx::astype(result, dtype, stream);
}

std::vector<mx::array> KvStep::finish() const {
  const auto unused = std::ranges::find(added_, std::optional<Ids>());
  if (unused != added_.end()) {
    refuse("the cache has " + std::to_string(added_.size()) +
           " layers, and the method doesn't use layer " + std::to_string(unused - added_.begin()));
  }
  std::vector<mx::array> arrays;
  for (const auto& [layer, attended] : attended_) arrays.push_back(attended);
  for (const auto& [layer, pools] : composed_) append_arrays(*pools, arrays);
  return arrays;
}

void KvStep::commit() {
  for (auto& [layer, pools] : composed_) cache_.put(layer, pools);
  keep();
  uncommitted_.reset();
}

std::shared_ptr<KvPools> KvStep::pools_of(int layer) const {
  const auto composed = composed_.find(layer);
  return composed != composed_.end() ? composed->second : cache_.pools_[layer];
}

KvCache::KvCache(std::vector<KvLayer> layers, KvStorage storage)
    : layers_(std::move(layers)), storage_(storage), pools_(layers_.size()) {
  if (layers_.empty()) throw CodedError("USAGE", "a cache needs at least one layer");
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto& [kv_heads, head_size, value_size, window] = layers_[i];
    const std::string name = "layer " + std::to_string(i);
    if (kv_heads < 1 || head_size < 1 || value_size < 1 || window < 0) {
      throw CodedError("USAGE", name + " needs sizes of at least 1");
    }
    const bool grouped = head_size % quantized_group == 0 && value_size % quantized_group == 0;
    if (is_quantized(storage) && !grouped) {
      throw CodedError("USAGE", name + " can't be stored as " + name_of(storage) +
                                    ": its headSize and valueSize have to be multiples of " +
                                    std::to_string(quantized_group));
    }
  }
}

KvCache::Use::Use(KvCache& cache) : cache_(cache) {
  if (cache.in_use_.exchange(true)) {
    throw CodedError("USAGE", "the cache is in use by a call, which has to end first");
  }
}

std::shared_ptr<KvPools> KvCache::make_pools(size_t layer, int batch, int slots) const {
  const KvLayer& sizes = layers_[layer];
  return std::make_shared<KvPools>(
      KvPools{KvPool(storage_, batch, sizes.kv_heads, slots, sizes.head_size),
              KvPool(storage_, batch, sizes.kv_heads, slots, sizes.value_size)});
}

void KvCache::grow(size_t layer, int slots, int copied) {
  const KvPools& old = pools(layer);
  auto grown = make_pools(layer, old.keys.batch(), slots);
  old.keys.copy_slots(0, copied, grown->keys, 0);
  old.values.copy_slots(0, copied, grown->values, 0);
  put(layer, std::move(grown));
}

void KvCache::put(size_t layer, std::shared_ptr<KvPools> pools) {
  std::shared_ptr<KvPools>& place = pools_[layer];
  if (place) bytes_ -= place->bytes();
  bytes_ += pools->bytes();
  place = std::move(pools);
}

}  // namespace mlx_runners::lm
