// Integers that are known when a method is called: computed from its dimensions in one pass over a
// table, in which a size refers only to earlier ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_runners::program {

enum class SizeOp : uint8_t {
  Constant,   // a
  Dimension,  // that of number a
  Add,        // of the sizes a and b, as below
  Multiply,
  FloorDivide,  // towards minus infinity, by what has to be positive
  Max,
};
inline constexpr uint32_t size_op_count = 6;

struct SizeNode {
  SizeOp op;
  int64_t a;
  int64_t b;
};

class SizeTable {
 public:
  // Throws CodedError "PROGRAM" when the node refers to what does not come before it.
  void add(SizeNode node, size_t dimension_count);

  size_t count() const { return nodes_.size(); }
  const SizeNode& at(size_t number) const { return nodes_[number]; }

  // Fills `sizes`. Throws CodedError "PROGRAM" when one is beyond 2^53 or a divisor isn't positive.
  void evaluate(std::span<const int64_t> dimensions, std::vector<int64_t>& sizes) const;

 private:
  std::vector<SizeNode> nodes_;
};

}  // namespace mlx_runners::program
