#include "ops/indices.h"

#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

template <class T>
bool is_outside(T value, size_t size) {
  uint64_t distance = static_cast<uint64_t>(value);
  if constexpr (std::is_signed_v<T>) {
    if (value < 0) distance = static_cast<uint64_t>(-(value + 1));
  }
  return distance >= size;
}

template <class T>
std::optional<std::string> first_outside(const mx::array& array, size_t size) {
  const T* values = array.data<T>();
  if (array.flags().contiguous) {
    for (size_t i = 0; i < array.data_size(); ++i) {
      if (is_outside(values[i], size)) return std::to_string(values[i]);
    }
    return std::nullopt;
  }
  // A view with gaps, in which there may be any value: its own elements, one by one.
  mx::Shape position(array.ndim(), 0);
  int64_t offset = 0;
  for (size_t i = 0; i < array.size(); ++i) {
    if (is_outside(values[offset], size)) return std::to_string(values[offset]);
    for (int axis = static_cast<int>(array.ndim()) - 1; axis >= 0; --axis) {
      offset += array.strides(axis);
      if (++position[axis] < array.shape(axis)) break;
      offset -= array.strides(axis) * position[axis];
      position[axis] = 0;
    }
  }
  return std::nullopt;
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

bool is_known(const mx::array& array, mx::StreamOrDevice s) {
  return mx::to_stream(s).device == mx::Device::cpu && !array.is_tracer() && array.is_available();
}

std::optional<std::string> value_outside(const mx::array& array, size_t size,
                                         mx::StreamOrDevice s) {
  if (array.size() == 0 || !is_known(array, s)) return std::nullopt;
  switch (array.dtype()) {
    case mx::uint8:
      return first_outside<uint8_t>(array, size);
    case mx::uint16:
      return first_outside<uint16_t>(array, size);
    case mx::uint32:
      return first_outside<uint32_t>(array, size);
    case mx::uint64:
      return first_outside<uint64_t>(array, size);
    case mx::int8:
      return first_outside<int8_t>(array, size);
    case mx::int16:
      return first_outside<int16_t>(array, size);
    case mx::int32:
      return first_outside<int32_t>(array, size);
    default:
      return first_outside<int64_t>(array, size);
  }
}

void check_indices(const char* op, const mx::array& indices, size_t size, mx::StreamOrDevice s) {
  const std::string prefix = std::string("[") + op + "] ";
  if (!mx::issubdtype(indices.dtype(), mx::integer)) {
    throw std::invalid_argument(prefix + "indices have to be of an integer type.");
  }
  if (size == 0 && indices.size() > 0) {
    throw std::invalid_argument(prefix + "every index is outside an axis of size 0.");
  }
  if (const auto index = value_outside(indices, size, s)) {
    throw std::invalid_argument(prefix + "the index " + *index + " is outside an axis of size " +
                                std::to_string(size) + ".");
  }
}

}  // namespace mlx_runners
