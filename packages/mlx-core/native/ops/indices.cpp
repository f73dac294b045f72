#include "ops/indices.h"

#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

template <class T>
void check_value(const char* op, T value, size_t size) {
  uint64_t distance = static_cast<uint64_t>(value);
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) distance = static_cast<uint64_t>(-(value + 1));
  }
  if (distance < size) return;
  std::ostringstream message;
  message << "[" << op << "] the index " << +value << " is outside an axis of size " << size << ".";
  throw std::invalid_argument(message.str());
}

template <class T>
void check_values(const char* op, const mx::array& indices, size_t size) {
  const T* values = indices.data<T>();
  if (indices.flags().contiguous) {
    for (size_t i = 0; i < indices.data_size(); ++i) check_value(op, values[i], size);
    return;
  }
  // A view with gaps, in which there may be any value: its own elements, one by one.
  mx::Shape position(indices.ndim(), 0);
  int64_t offset = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    check_value(op, values[offset], size);
    for (int axis = static_cast<int>(indices.ndim()) - 1; axis >= 0; --axis) {
      offset += indices.strides(axis);
      if (++position[axis] < indices.shape(axis)) break;
      offset -= indices.strides(axis) * position[axis];
      position[axis] = 0;
    }
  }
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
  if (mx::to_stream(s).device != mx::Device::cpu || indices.size() == 0 || indices.is_tracer() ||
      !indices.is_available()) {
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
