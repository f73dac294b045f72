#include "core/shape_argument.h"

#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

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
  mx::Shape shape;
  double elements = 1;  // a double can't overflow into a small number
  bool empty = false;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const double size = list.Get(i).ToNumber().DoubleValue();
    if (!(size >= 0 && size <= std::numeric_limits<int>::max()) || std::floor(size) != size) {
      throw CodedError("SHAPE", "a size has to be a whole number below 2³¹");
    }
    shape.push_back(static_cast<int>(size));
    elements *= size;
    empty = empty || size == 0;
  }
  const double needed = empty ? 0 : elements * dtype.size();
  const auto available = static_cast<double>(bytes);
  if (exactly ? needed != available : needed > available) {
    std::ostringstream message;
    message << std::setprecision(15) << "the shape needs " << needed << " bytes, there are "
            << bytes;
    throw CodedError("SHAPE", message.str());
  }
  return shape;
}

}  // namespace mlx_runners
