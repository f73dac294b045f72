// The arrays of one JavaScript environment, addressed by generation-checked ids.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mlx/array.h"

namespace mlx_runners {

// Where an op finds the arrays that its values name.
class ArraySource {
 public:
  virtual ~ArraySource() = default;
  virtual const mlx::core::array& at(double id) const = 0;
};

// A slab: slots are reused, and an id carries its slot's generation, so that an id used after its
// array was dropped is noticed. Ids are whole numbers below 2^53 and so exact as doubles.
class ArrayTable final : public ArraySource {
 public:
  ArrayTable() = default;
  ~ArrayTable() { clear(); }
  ArrayTable(const ArrayTable&) = delete;
  ArrayTable& operator=(const ArrayTable&) = delete;

  // Live arrays of all tables in this process.
  static size_t total_live();

  double insert(mlx::core::array array);

  // Throws CodedError "DISPOSED" for an id that is not live.
  const mlx::core::array& at(double id) const override;

  // Drops the array and returns the bytes that were charged for it; an id that is not live is
  // ignored, since disposing twice is allowed.
  int64_t erase(double id);

  // Notes that `bytes` were reported to the garbage collector for this array.
  void charge(double id, int64_t bytes);

  bool contains(double id) const { return find(id) != nullptr; }
  size_t live() const { return live_; }
  int64_t clear();

 private:
  struct Slot {
    std::optional<mlx::core::array> array;
    uint32_t generation = 0;
    int64_t charged = 0;
  };

  const Slot* find(double id) const;

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t live_ = 0;
};

}  // namespace mlx_runners
