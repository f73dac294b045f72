#include "program/sizes.h"

#include <algorithm>

#include "core/errors.h"

namespace mlx_runners::program {
namespace {

// Beyond it the doubles in which sizes come and go are not exact.
constexpr int64_t largest = int64_t{1} << 53;

int64_t floor_divide(int64_t a, int64_t b) {
  if (b <= 0) throw CodedError("PROGRAM", "a size is divided by what is not positive");
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) throw CodedError("PROGRAM", "a size is too large");
  return product;
}

int64_t compute(const SizeNode& node, std::span<const int64_t> dimensions,
                const std::vector<int64_t>& sizes) {
  switch (node.op) {
    case SizeOp::Constant:
      return node.a;
    case SizeOp::Dimension:
      return dimensions[node.a];
    case SizeOp::Add:
      return sizes[node.a] + sizes[node.b];
    case SizeOp::Multiply:
      return multiply(sizes[node.a], sizes[node.b]);
    case SizeOp::FloorDivide:
      return floor_divide(sizes[node.a], sizes[node.b]);
    case SizeOp::Max:
      return std::max(sizes[node.a], sizes[node.b]);
  }
  throw CodedError("PROGRAM", "a size has an unknown operator");
}

}  // namespace

void SizeTable::add(SizeNode node, size_t dimension_count) {
  const auto below = [](int64_t number, size_t count) {
    return number >= 0 && static_cast<size_t>(number) < count;
  };
  const bool valid = node.op == SizeOp::Constant ? std::abs(node.a) <= largest
                     : node.op == SizeOp::Dimension
                         ? below(node.a, dimension_count)
                         : below(node.a, count()) && below(node.b, count());
  if (!valid) throw CodedError("PROGRAM", "a size refers to what does not come before it");
  nodes_.push_back(node);
}

void SizeTable::evaluate(std::span<const int64_t> dimensions, std::vector<int64_t>& sizes) const {
  sizes.clear();
  for (const SizeNode& node : nodes_) {
    const int64_t size = compute(node, dimensions, sizes);
    if (size > largest || size < -largest) throw CodedError("PROGRAM", "a size is too large");
    sizes.push_back(size);
  }
}

}  // namespace mlx_runners::program
