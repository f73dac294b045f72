#include "core/array_table.h"

#include <atomic>
#include <utility>

#include "core/errors.h"

namespace mlx_runners {
namespace {

constexpr uint64_t index_bits = 24;
constexpr uint64_t max_slots = uint64_t{1} << index_bits;
constexpr uint32_t generation_mask = (1u << (53 - index_bits)) - 1;

std::atomic<size_t> live_in_process{0};

}  // namespace

size_t ArrayTable::total_live() { return live_in_process.load(std::memory_order_relaxed); }

const ArrayTable::Slot* ArrayTable::find(double id) const {
  if (!(id >= 0 && id < 9007199254740992.0)) return nullptr;
  const auto bits = static_cast<uint64_t>(id);
  const uint64_t index = bits & (max_slots - 1);
  if (index >= slots_.size()) return nullptr;
  const Slot& slot = slots_[index];
  return slot.array && slot.generation == bits >> index_bits ? &slot : nullptr;
}

double ArrayTable::insert(mlx::core::array array) {
  uint32_t index;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (slots_.size() == max_slots) {
      throw CodedError("NATIVE", "16 million arrays are alive: dispose some, or use mx.tidy().");
    }
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  Slot& slot = slots_[index];
  slot.array.emplace(std::move(array));
  slot.charged = 0;
  ++live_;
  live_in_process.fetch_add(1, std::memory_order_relaxed);
  return static_cast<double>(uint64_t{slot.generation} << index_bits | index);
}

const mlx::core::array& ArrayTable::at(double id) const {
  const Slot* slot = find(id);
  if (!slot) throw CodedError("DISPOSED", "an array is used after it was disposed");
  return *slot->array;
}

int64_t ArrayTable::erase(double id) {
  auto* slot = const_cast<Slot*>(find(id));
  if (!slot) return 0;
  slot->array.reset();
  slot->generation = (slot->generation + 1) & generation_mask;
  free_.push_back(static_cast<uint32_t>(slot - slots_.data()));
  --live_;
  live_in_process.fetch_sub(1, std::memory_order_relaxed);
  return std::exchange(slot->charged, 0);
}

void ArrayTable::charge(double id, int64_t bytes) {
  if (auto* slot = const_cast<Slot*>(find(id))) slot->charged += bytes;
}

int64_t ArrayTable::clear() {
  int64_t charged = 0;
  for (const Slot& slot : slots_) charged += slot.charged;
  slots_.clear();
  free_.clear();
  live_in_process.fetch_sub(std::exchange(live_, 0), std::memory_order_relaxed);
  return charged;
}

}  // namespace mlx_runners
