// The arguments of an op, as eager calls and exported programs both write them.
#pragma once

#include <cstdint>

namespace mlx_runners {

enum class Tag : uint32_t {
  None = 0,
  Array = 1,   // number: an array's id (eager) or slot (program)
  Int = 2,     // number: the value
  Float = 3,   // number: the value
  Bool = 4,    // number: 0 or 1
  Dtype = 5,   // number: index into dtypes (core/dtypes.h)
  String = 6,  // number: index into the interned strings
  Ints = 7,    // size numbers, starting at `number` in the list area
  Arrays = 8,  // size array ids, starting at `number` in the list area
};

// 16 bytes, so that JavaScript can fill an array of them through typed-array views.
struct Value {
  Tag tag = Tag::None;
  uint32_t size = 0;
  double number = 0;
};
static_assert(sizeof(Value) == 16);

// Values point into the list area for whatever does not fit into a double.
struct ValueList {
  const Value* values;
  uint32_t count;
  const double* lists;
  uint32_t list_size;
};

// The block of memory through which JavaScript passes arguments and receives results, in doubles:
// values (two doubles each), then the list area, then results.
struct ExchangeLayout {
  static constexpr uint32_t values = 64;
  static constexpr uint32_t lists = 8192;
  static constexpr uint32_t results = 1024;
  static constexpr uint32_t lists_at = 2 * values;
  static constexpr uint32_t results_at = lists_at + lists;
  static constexpr uint32_t total = results_at + results;
};

}  // namespace mlx_runners
