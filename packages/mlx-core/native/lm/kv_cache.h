// Caches of keys and values outside of programs: given to a call, found by the op updateAndAttend
// while the call's instructions are built, and advanced when the call has succeeded.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lm/kv_layer.h"
#include "lm/kv_pool.h"
#include "lm/layer_tokens.h"
#include "mlx/array.h"

namespace mlx_runners::lm {

// A layer's memory. Shared with what a call has queued.
struct KvPools {
  KvPool keys;
  KvPool values;
  size_t bytes() const { return keys.bytes() + values.bytes(); }
};

class KvStep;

class KvCache {
 public:
  // Throws CodedError "USAGE" for layers that can't be.
  KvCache(std::vector<KvLayer> layers, KvStorage storage);
  virtual ~KvCache() = default;

  const std::vector<KvLayer>& layers() const { return layers_; }
  KvStorage storage() const { return storage_; }
  // Of keys and values; may be asked at any time.
  size_t bytes() const { return bytes_; }

  // For a call; `sequences` are those of a cell cache's tokens. Throws CodedError "USAGE" when
  // another call has it.
  virtual std::unique_ptr<KvStep> begin(std::vector<int> sequences) = 0;

  // Held by whoever changes the cache, or reads what a call writes.
  class Use {
   public:
    explicit Use(KvCache& cache);
    ~Use() { cache_.in_use_ = false; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    KvCache& cache_;
  };

  // For tests: layers attend by MLX's own ops, as on devices that the kernels don't know.
  void compose() { composed_ = true; }
  bool composes(const mx::Stream& stream) const {
    return composed_ || stream.device != mx::Device::cpu;
  }

 protected:
  KvPools& pools(size_t layer) const { return *pools_[layer]; }
  // Memory for so many slots of a layer, which hold anything.
  std::shared_ptr<KvPools> make_pools(size_t layer, int batch, int slots) const;
  // Replaces a layer's memory.
  void put(size_t layer, std::shared_ptr<KvPools> pools);
  // Replaces it by one of so many slots, the first of which are copied.
  void grow(size_t layer, int slots, int copied);

 private:
  friend class KvStep;

  std::vector<KvLayer> layers_;
  KvStorage storage_;
  std::vector<std::shared_ptr<KvPools>> pools_;  // by layer
  bool composed_ = false;
  std::atomic<size_t> bytes_{0};
  std::atomic<bool> in_use_{false};
};

// A call's use of a cache, which nobody else has meanwhile. Unless it is committed, nothing has
// happened.
class KvStep {
 public:
  // Throws CodedError "USAGE" when another call has the cache.
  explicit KvStep(KvCache& cache);
  virtual ~KvStep();
  KvStep(const KvStep&) = delete;
  KvStep& operator=(const KvStep&) = delete;

  // The step of the call that this thread builds; null outside of such calls.
  static KvStep* current();

  // Adds a layer's tokens and attends to all that their queries see. Further queries may come with
  // the same keys and values, which are there then: layers share them. Throws CodedError for what
  // the cache doesn't fit, or has no room for.
  mx::array attend(const LayerTokens& tokens, mx::Stream stream);

  // Once everything is built: throws CodedError when some layer got no tokens. Returns arrays that
  // have to be computed before the commit.
  std::vector<mx::array> finish() const;

  void commit();

 protected:
  // Checked against the cache's layers, float32; `again` where the layer has these tokens. Split
  // and rotated where the cache composes.
  virtual mx::array attend_checked(const LayerTokens& tokens, bool again, mx::Stream stream) = 0;
  // The tokens become the cache's.
  virtual void keep() = 0;

  // A layer's memory, as far as the step has come.
  std::shared_ptr<KvPools> pools_of(int layer) const;
  // The memory that ops have made of that, the cache's own after the commit.
  void compose(int layer, std::shared_ptr<KvPools> pools) { composed_[layer] = std::move(pools); }

 private:
  using Ids = std::pair<std::uintptr_t, std::uintptr_t>;

  KvCache& cache_;
  const KvCache::Use use_;
  std::vector<std::optional<Ids>> added_;             // by layer: its keys and values
  std::vector<std::pair<int, mx::array>> attended_;   // by layer: what may not be computed yet
  std::map<int, std::shared_ptr<KvPools>> composed_;  // by layer
  std::optional<mx::Stream> uncommitted_;             // where its work is queued
};

// Makes a step, or none, that of the calls which this thread builds.
class KvScope {
 public:
  explicit KvScope(KvStep* step);
  ~KvScope();
  KvScope(const KvScope&) = delete;
  KvScope& operator=(const KvScope&) = delete;
};

}  // namespace mlx_runners::lm
