#include "core/checked_shape.h"

#include <cmath>
#include <iomanip>
#include <limits>
#include <sstream>

#include "core/errors.h"

namespace mlx_runners {
namespace mx = mlx::core;

mx::Shape checked_shape(std::span<const double> sizes, mx::Dtype dtype, size_t bytes,
                        bool exactly) {
  mx::Shape shape;
  double elements = 1;  // a double can't overflow into a small number
  bool empty = false;
  for (const double size : sizes) {
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
