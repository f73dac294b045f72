// Names and wire numbers of MLX's dtypes.
#pragma once

#include <array>

#include "mlx/dtype.h"

namespace mlx_runners {

struct DtypeName {
  const char* name;
  mlx::core::Dtype dtype;
};

// The position in this list is the dtype's number in a Value; src/dtype.ts has the same order.
inline constexpr std::array<DtypeName, 14> dtypes{{
    {"bool_", mlx::core::bool_},
    {"uint8", mlx::core::uint8},
    {"uint16", mlx::core::uint16},
    {"uint32", mlx::core::uint32},
    {"uint64", mlx::core::uint64},
    {"int8", mlx::core::int8},
    {"int16", mlx::core::int16},
    {"int32", mlx::core::int32},
    {"int64", mlx::core::int64},
    {"float16", mlx::core::float16},
    {"float32", mlx::core::float32},
    {"float64", mlx::core::float64},
    {"bfloat16", mlx::core::bfloat16},
    {"complex64", mlx::core::complex64},
}};

constexpr int dtype_number(mlx::core::Dtype dtype) {
  return static_cast<int>(dtype.val());  // MLX's own enumeration has the same order
}
static_assert(dtype_number(mlx::core::complex64) == 13 && dtype_number(mlx::core::float16) == 9);

}  // namespace mlx_runners
