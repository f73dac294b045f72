#include "lm/sequence_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/errors.h"
#include "lm/cached_attention.h"

namespace mlx_runners::lm {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw CodedError("SHAPE", message); }

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

SequenceCacheOptions checked(SequenceCacheOptions options) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw CodedError("USAGE", what);
  };
  require(options.capacity >= 1, "capacity has to be at least 1");
  require(options.batch >= 1, "batch has to be at least 1");
  require(options.initial_capacity >= 0, "initialCapacity can't be negative");
  require(options.max_write >= 0, "maxWrite can't be negative");
  options.initial_capacity = std::min(options.initial_capacity, options.capacity);
  if (options.max_write == 0) {
    options.max_write = options.capacity;
    for (const KvLayer& layer : options.layers) {
      if (layer.window > 0) options.max_write = std::min(options.max_write, layer.window);
    }
  }
  options.max_write = std::min(options.max_write, options.capacity);
  return options;
}

}  // namespace

// One call. The memory that it writes is beyond what the committed length shows.
class SequenceCache::Step final : public KvStep {
 public:
  explicit Step(SequenceCache& cache) : KvStep(cache), cache_(cache) {}

 protected:
  void keep() override { cache_.commit(*plan_); }

  mx::array attend_checked(const LayerTokens& tokens, bool again, mx::Stream stream) override {
    const auto [batch, heads, count, size] = k_sizes(tokens);
    const int position = positions_of(tokens.position, 1, stream)[0];
    if (!plan_) {
      if (batch != cache_.batch()) {
        refuse("the cache holds a batch of " + std::to_string(cache_.batch()) +
               ", and the method's is of " + std::to_string(batch));
      }
      plan_ = cache_.plan(position, count);
    } else if (position != plan_->position || count != plan_->count || batch != cache_.batch()) {
      refuse("all layers of a cache have to get the same tokens");
    }
    const SlotOrder& order = cache_.layers_[tokens.layer].order;
    SequenceSlots slots{{}, order.read(position, count, tokens.window)};
    if (!again) slots.write = order.write(position, count);
    if (cache_.composes(stream)) {
      const int needed = cache_.slots_for(tokens.layer, position + count);
      auto [attended, pools] =
          composed_attention(tokens, *pools_of(tokens.layer), needed, slots, stream);
      compose(tokens.layer, std::move(pools));
      return attended;
    }
    cache_.reserve(tokens.layer, position + count);
    cache_.written_ = std::max(cache_.written_.load(), position + count);
    return attention_in_place(tokens, position, pools_of(tokens.layer), std::move(slots), stream);
  }

 private:
  SequenceCache& cache_;
  std::optional<Plan> plan_;
};

SequenceCache::SequenceCache(SequenceCacheOptions options)
    : KvCache(options.layers, options.storage), options_(checked(std::move(options))) {
  for (size_t i = 0; i < layers().size(); ++i) {
    const int window = layers()[i].window;
    const SlotOrder order = window > 0
                                ? SlotOrder::ring(window, options_.max_write, options_.capacity)
                                : SlotOrder::flat(options_.capacity);
    layers_.push_back({order});
    const int slots = order.evicts() ? order.slots() : options_.initial_capacity;
    put(i, make_pools(i, options_.batch, slots));
  }
}

bool SequenceCache::can_extend(int tokens) const {
  return tokens >= 0 && tokens <= options_.capacity - length_;
}

int SequenceCache::first_present(const Layer& layer) const {
  return layer.order.evicts() ? std::max(layer.first, written_ - layer.order.slots()) : 0;
}

bool SequenceCache::can_rewind(int length) const {
  if (length < 0 || length > length_) return false;
  return length == 0 || std::ranges::all_of(layers_, [&](const Layer& layer) {
           return layer.order.first_seen(length) >= first_present(layer);
         });
}

void SequenceCache::rewind(int length) {
  const Use use(*this);
  if (length < 0 || length > length_) {
    refuse("a cache of " + counted(length_, "token") + " can't be rewound to " +
           std::to_string(length));
  }
  if (!can_rewind(length)) {
    refuse("the cache can't be rewound from " + std::to_string(length_) + " to " +
           counted(length, "token") + ": its windows have moved on");
  }
  length_ = length;
  if (length == 0) forget();
}

void SequenceCache::clear() {
  const Use use(*this);
  forget();
}

void SequenceCache::forget() {
  length_ = 0;
  written_ = 0;
  for (Layer& layer : layers_) layer.first = 0;
}

SequenceCache::Plan SequenceCache::plan(int position, int count) const {
  if (position != length_) {
    refuse("the cache holds " + counted(length_, "token") + ", so that the next position is " +
           std::to_string(length_) + ", not " + std::to_string(position));
  }
  if (!can_extend(count)) {
    refuse("the cache holds " + std::to_string(length_) + " of " +
           counted(options_.capacity, "token") + "; " + std::to_string(count) + " more don't fit");
  }
  const bool has_ring =
      std::ranges::any_of(layers_, [](auto& each) { return each.order.evicts(); });
  if (has_ring && count > options_.max_write) {
    refuse("the cache's windows have room for " + counted(options_.max_write, "token") +
           " at once (maxWrite), not for " + std::to_string(count));
  }
  return {position, count};
}

void SequenceCache::commit(const Plan& plan) {
  length_ = std::max(length_.load(), plan.position + plan.count);
  written_ = std::max(written_.load(), length_.load());
}

std::unique_ptr<KvStep> SequenceCache::begin(std::vector<int> sequences) {
  if (!sequences.empty()) {
    throw CodedError("USAGE", "sequences are for cell caches: all of this cache's get the tokens");
  }
  return std::make_unique<Step>(*this);
}

int SequenceCache::slots_for(size_t layer, int length) const {
  int64_t slots = pools(layer).keys.slots();
  if (layers_[layer].order.evicts()) return static_cast<int>(slots);
  slots = std::max<int64_t>(slots, 1);
  while (slots < length) slots *= 2;
  return static_cast<int>(std::min<int64_t>(slots, options_.capacity));
}

void SequenceCache::reserve(size_t layer, int length) {
  const int slots = slots_for(layer, length);
  if (slots > pools(layer).keys.slots()) grow(layer, slots, length_);
}

std::shared_ptr<SequenceCache> SequenceCache::copy() {
  const Use use(*this);
  auto copied = std::make_shared<SequenceCache>(options_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    copied->reserve(i, length_);
    const KvPools& from = pools(i);
    KvPools& to = copied->pools(i);
    const int slots = layers_[i].order.evicts() ? from.keys.slots() : length_.load();
    from.keys.copy_slots(0, slots, to.keys, 0);
    from.values.copy_slots(0, slots, to.values, 0);
    copied->layers_[i].first = layers_[i].first;
  }
  copied->length_ = length_.load();
  copied->written_ = written_.load();
  return copied;
}

}  // namespace mlx_runners::lm
