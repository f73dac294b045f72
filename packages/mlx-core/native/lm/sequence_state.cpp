// The state of a sequence cache as arrays, and back.
#include <cstring>

#include "core/errors.h"
#include "lm/sequence_cache.h"

namespace mlx_runners::lm {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw CodedError("SHAPE", message); }

std::vector<std::string> names_of(size_t layer, const char* kind, KvStorage storage) {
  const std::string name = std::to_string(layer) + "." + kind;
  if (!is_quantized(storage)) return {name};
  return {name + ".codes", name + ".scales", name + ".biases"};
}

const mx::array& found(const SequenceCache::State& state, const std::string& name) {
  const auto entry = state.find(name);
  if (entry == state.end()) refuse("the state has no " + name);
  return entry->second;
}

int tokens_of(const mx::array& array, const std::string& name) {
  if (array.ndim() != 4) refuse(name + " has to be of 4 axes");
  return array.shape(2);
}

// The part of a state that belongs to a pool, whose arrays have the shapes of `like` but for slots.
KvPool part_of(const SequenceCache::State& state, const std::vector<std::string>& names,
               const KvPool& like, int slots) {
  std::vector<mx::array> arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    const mx::array& array = found(state, names[i]);
    mx::Shape shape = like.arrays()[i].shape();
    shape[2] = slots;
    if (array.shape() != shape || array.dtype() != like.arrays()[i].dtype()) {
      refuse(names[i] + " has another shape or dtype than the cache's");
    }
    if (!array.flags().row_contiguous) refuse(names[i] + " isn't laid out row by row");
    arrays.push_back(array);
  }
  return KvPool(like.storage(), like.size(), std::move(arrays));
}

}  // namespace

SequenceCache::State SequenceCache::state() {
  const Use use(*this);
  State state{{"length", mx::array({length_.load()}, mx::int32)}};
  if (length_ == 0) return state;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const SlotOrder& order = layers_[i].order;
    const int first = std::max(order.retained_from(length_), first_present(layers_[i]));
    const auto runs = order.write(first, length_ - first);
    const auto add = [&](const char* kind, const KvPool& pool) {
      KvPool part(storage(), batch(), pool.heads(), length_ - first, pool.size());
      int place = 0;
      for (const auto& [begin, end] : runs) {
        pool.copy_slots(begin, end - begin, part, place);
        place += end - begin;
      }
      const auto names = names_of(i, kind, storage());
      for (size_t k = 0; k < names.size(); ++k) state.emplace(names[k], part.arrays()[k]);
    };
    add("keys", pools(i).keys);
    add("values", pools(i).values);
  }
  return state;
}

void SequenceCache::load(const State& state) {
  const Use use(*this);
  const mx::array& given = found(state, "length");
  if (given.size() != 1 || given.dtype() != mx::int32) refuse("length has to be one int32");
  const int length = given.data<int32_t>()[0];
  if (length < 0 || length > capacity()) {
    refuse("the state has " + std::to_string(length) + " tokens, and the cache's capacity is " +
           std::to_string(capacity()));
  }
  // In memory of its own, so that what fails has changed nothing.
  std::vector<Layer> layers = layers_;
  std::vector<std::shared_ptr<KvPools>> loaded;
  for (size_t i = 0; i < layers.size() && length > 0; ++i) {
    const KvPools& own = pools(i);
    // As many as there are, which in a ring may be one less than are kept else.
    const std::string name = names_of(i, "keys", storage())[0];
    const int slots = tokens_of(found(state, name), name);
    const int least = length - layers[i].order.first_seen(length);
    if (slots < least || slots > length || slots > layers[i].order.slots()) {
      refuse("layer " + std::to_string(i) + " of the state has " + std::to_string(slots) +
             " tokens, which is not what the cache's keeps");
    }
    const KvPools part{part_of(state, names_of(i, "keys", storage()), own.keys, slots),
                       part_of(state, names_of(i, "values", storage()), own.values, slots)};
    loaded.push_back(make_pools(i, batch(), slots_for(i, length)));
    layers[i].first = length - slots;
    int place = 0;
    for (const auto& [begin, end] : layers[i].order.write(layers[i].first, slots)) {
      part.keys.copy_slots(place, end - begin, loaded[i]->keys, begin);
      part.values.copy_slots(place, end - begin, loaded[i]->values, begin);
      place += end - begin;
    }
  }
  forget();
  if (length == 0) return;
  layers_ = std::move(layers);
  for (size_t i = 0; i < loaded.size(); ++i) put(i, std::move(loaded[i]));
  length_ = length;
  written_ = length;
}

}  // namespace mlx_runners::lm
