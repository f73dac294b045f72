// A cache for sequences that grow together.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lm/kv_cache.h"

namespace mlx_runners::lm {

struct SequenceCacheOptions {
  std::vector<KvLayer> layers;
  int capacity = 0;  // tokens of a sequence
  int batch = 1;     // sequences, all of one length
  KvStorage storage = KvStorage::Float32;
  int initial_capacity = 512;  // tokens that layers without a window have room for at first
  int max_write = 0;           // the most tokens of a call; 0: the least window, or the capacity
};

// One length for all layers. Layers with a window are rings, whose memory stays as it is; the
// others grow, doubling. What changes it takes turns with calls (KvCache::Use).
class SequenceCache final : public KvCache {
 public:
  // Throws CodedError "USAGE" for what can't be, "MEMORY".
  explicit SequenceCache(SequenceCacheOptions options);

  int length() const { return length_; }
  int capacity() const { return options_.capacity; }
  int batch() const { return options_.batch; }
  int max_write() const { return options_.max_write; }
  bool can_extend(int tokens) const;

  // Whether the cache can be as if only the first `length` tokens had come: what later tokens see
  // has to be there still.
  bool can_rewind(int length) const;
  void rewind(int length);  // throws CodedError "SHAPE"
  void clear();

  struct Plan {
    int position;
    int count;
  };
  // For tokens from `position` on; throws CodedError "SHAPE". Changes nothing.
  Plan plan(int position, int count) const;
  // Once they are there; again changes nothing.
  void commit(const Plan& plan);

  std::unique_ptr<KvStep> begin(std::vector<int> sequences) override;

  // A copy with memory of its own.
  std::shared_ptr<SequenceCache> copy();

  // What the next tokens see, oldest first, by name: "0.keys" [batch, kvHeads, tokens, headSize],
  // or "0.keys.codes", ".scales" and ".biases"; and "length" int32 [1].
  using State = std::map<std::string, mx::array>;
  State state();
  // Computed arrays; throws CodedError "SHAPE", "DTYPE" for what isn't the state of such a cache.
  void load(const State& state);

 private:
  class Step;
  struct Layer {
    SlotOrder order;
    int first = 0;  // no position before it was loaded
  };

  int slots_for(size_t layer, int length) const;
  void reserve(size_t layer, int length);
  void forget();
  // The first position that is in the layer's memory.
  int first_present(const Layer& layer) const;

  SequenceCacheOptions options_;
  std::vector<Layer> layers_;
  std::atomic<int> length_{0};
  std::atomic<int> written_{
      0};  // positions before it may have been written, by calls that failed too
};

}  // namespace mlx_runners::lm
