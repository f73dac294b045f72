#include "lm/kv_layer.h"

#include <algorithm>

namespace mlx_runners::lm {

SlotOrder SlotOrder::ring(int window, int max_write, int capacity) {
  const int64_t slots = int64_t{window} + max_write - 1;
  return SlotOrder(window, static_cast<int>(std::min<int64_t>(slots, capacity)));
}

std::vector<SlotRun> SlotOrder::runs(int position, int count) const {
  const int begin = evicts() ? position % slots_ : position;
  if (!evicts() || begin + count <= slots_) return {{begin, begin + count}};
  return {{begin, slots_}, {0, begin + count - slots_}};
}

std::vector<SlotRun> SlotOrder::read(int position, int count, int window) const {
  const int seen = window > 0 ? position - window + 1 : 0;
  const int first = std::max(first_seen(position), seen);
  return runs(first, position + count - first);
}

int SlotOrder::first_seen(int position) const {
  return evicts() ? std::max(0, position - window_ + 1) : 0;
}

int SlotOrder::retained_from(int length) const {
  return evicts() ? std::max(0, length - window_) : 0;
}

}  // namespace mlx_runners::lm
