// A cache for many sequences, each with a length of its own, that may share tokens.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lm/cell_table.h"
#include "lm/kv_cache.h"

namespace mlx_runners::lm {

// One pool of cells for all sequences (CellTable). A call's batch are tokens, each of a sequence
// that the call names; windows hide tokens and free none. What changes it takes turns with calls
// (KvCache::Use).
class CellCache final : public KvCache {
 public:
  // Throws CodedError "USAGE".
  CellCache(std::vector<KvLayer> layers, KvStorage storage, int cells);

  int cells() const { return cells_; }
  int free_cells() const { return free_cells_; }

  // See CellTable.
  int open();
  void close(int sequence);
  int length(int sequence) const;
  int fork(int sequence, int length);
  void remove(int sequence, int from, int to);

  std::unique_ptr<KvStep> begin(std::vector<int> sequences) override;

 private:
  class Step;
  int slots_for(size_t layer, int end) const;
  void reserve(size_t layer, int end);
  template <class Change>
  auto change(Change&& change);

  const int cells_;
  CellTable table_;
  mutable std::mutex mutex_;  // of the table, which may be asked while a call is committed
  std::atomic<int> free_cells_;
};

}  // namespace mlx_runners::lm
