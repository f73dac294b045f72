#include "core/shape_argument.h"

#include <vector>

#include "core/checked_shape.h"
#include "core/dtypes.h"
#include "core/errors.h"

namespace mlx_runners {
namespace mx = mlx::core;

mx::Dtype dtype_argument(const Napi::Value& value) {
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number < dtypes.size()))
    throw CodedError("DTYPE", "no dtype has this number");
  return dtypes[static_cast<size_t>(number)].dtype;
}

mx::Shape shape_argument(const Napi::Value& value, mx::Dtype dtype, size_t bytes, bool exactly) {
  const auto list = value.As<Napi::Array>();
  std::vector<double> sizes;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    sizes.push_back(list.Get(i).ToNumber().DoubleValue());
  }
  return checked_shape(sizes, dtype, bytes, exactly);
}

}  // namespace mlx_runners
