#include "ops/indices.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

template <class T>
void check_values(const char* op, const mx::array& indices, size_t size) {
  const T* values = indices.data<T>();
  const T* end = values + indices.data_size();
  const T* outside = std::find_if(values, end, [size](T value) {
    if constexpr (std::is_signed_v<T>) {
      if (value < 0) return static_cast<uint64_t>(-(value + 1)) >= size;
    }
    return static_cast<uint64_t>(value) >= size;
  });
  if (outside == end) return;
  std::ostringstream message;
  message << "[" << op << "] the index " << +*outside << " is outside an axis of size " << size
          << ".";
  throw std::invalid_argument(message.str());
}

}  // namespace

size_t axis_size(const mx::array& array, int axis) {
  const int ndim = static_cast<int>(array.ndim());
  if (axis < -ndim || axis >= ndim) {
    std::ostringstream message;
    message << "there is no axis " << axis << " in an array of shape " << array.shape() << ".";
    throw std::invalid_argument(message.str());
  }
  return static_cast<size_t>(array.shape(axis));
}

void check_indices(const char* op, const mx::array& indices, size_t size, mx::StreamOrDevice s) {
  if (!mx::issubdtype(indices.dtype(), mx::integer)) {
    throw std::invalid_argument(std::string("[") + op + "] indices have to be of an integer type.");
  }
  // In a view with gaps, elements that it doesn't show may have any value.
  if (mx::to_stream(s).device != mx::Device::cpu || indices.size() == 0 || indices.is_tracer() ||
      !indices.is_available() || !indices.flags().contiguous) {
    return;
  }
  switch (indices.dtype()) {
    case mx::uint8:
      return check_values<uint8_t>(op, indices, size);
    case mx::uint16:
      return check_values<uint16_t>(op, indices, size);
    case mx::uint32:
      return check_values<uint32_t>(op, indices, size);
    case mx::uint64:
      return check_values<uint64_t>(op, indices, size);
    case mx::int8:
      return check_values<int8_t>(op, indices, size);
    case mx::int16:
      return check_values<int16_t>(op, indices, size);
    case mx::int32:
      return check_values<int32_t>(op, indices, size);
    default:
      return check_values<int64_t>(op, indices, size);
  }
}

}  // namespace mlx_runners
