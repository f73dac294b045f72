// What a layer keeps of the tokens so far, and in which slots.
#pragma once

#include <vector>

namespace mlx_runners::lm {

struct KvLayer {
  int kv_heads = 0;
  int head_size = 0;   // of keys
  int value_size = 0;  // of values
  int window = 0;      // how many keys a query sees, its own included; 0: all
};

// Slots [begin, end).
struct SlotRun {
  int begin;
  int end;
  bool operator==(const SlotRun&) const = default;
};

// Where the tokens of sequences of one length lie. Flat: slot = position. Ring: slot = position mod
// slots; it has room for what `max_write` queries see that come at once.
class SlotOrder {
 public:
  static SlotOrder flat(int capacity) { return SlotOrder(0, capacity); }
  static SlotOrder ring(int window, int max_write, int capacity);

  bool evicts() const { return window_ > 0; }
  int window() const { return window_; }
  // The most that are needed: all of a ring's.
  int slots() const { return slots_; }

  // Slots of `count` tokens from `position` on, in order; two runs where the ring ends between
  // them.
  std::vector<SlotRun> write(int position, int count) const { return runs(position, count); }
  // Slots of the union of what these tokens see, oldest first, in at most two runs; `window` is
  // that of the queries, 0: none but the layer's own.
  std::vector<SlotRun> read(int position, int count, int window) const;
  // The first position that a query at `position` sees.
  int first_seen(int position) const;
  // The first position that is kept of so many tokens: what the last of them saw, and one more.
  int retained_from(int length) const;

 private:
  SlotOrder(int window, int slots) : window_(window), slots_(slots) {}
  std::vector<SlotRun> runs(int position, int count) const;

  int window_;
  int slots_;
};

}  // namespace mlx_runners::lm
