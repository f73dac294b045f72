#include "ops/indices.h"

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/cpu/fused_primitive.h"
#include "mlx/ops.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

// Calls with a number of an integer dtype's type.
template <class Call>
void with_type(mx::Dtype dtype, Call call) {
  switch (dtype) {
    case mx::uint8:
      return call(uint8_t{});
    case mx::uint16:
      return call(uint16_t{});
    case mx::uint32:
      return call(uint32_t{});
    case mx::uint64:
      return call(uint64_t{});
    case mx::int8:
      return call(int8_t{});
    case mx::int16:
      return call(int16_t{});
    case mx::int32:
      return call(int32_t{});
    default:
      return call(int64_t{});
  }
}

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

std::string outside_message(const char* op, const std::string& index, size_t size) {
  return std::string("[") + op + "] the index " + index + " is outside an axis of size " +
         std::to_string(size) + ".";
}

// Copies row-contiguous indices and leaves 0 for those outside, since what comes after runs all the
// same.
class CheckIndices : public cpu::FusedPrimitive {
 public:
  CheckIndices(mx::Stream stream, const char* op, size_t size)
      : FusedPrimitive(stream, [](const std::vector<mx::array>& in) { return in; }),
        op_(op),
        size_(size) {}
  DEFINE_NAME(CheckIndices)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array& indices = inputs[0];
    cpu::allocate(out);
    with_type(indices.dtype(), [&]<class T>(T) {
      cpu::dispatch(stream(), [from = indices.data<T>(), to = out.data<T>(), count = out.size(),
                               op = op_, size = size_] {
        std::optional<T> outside;
        for (size_t i = 0; i < count; ++i) {
          const bool fits = !is_outside(from[i], size);
          if (!fits && !outside) outside = from[i];
          to[i] = fits ? from[i] : 0;
        }
        if (outside)
          throw std::invalid_argument(outside_message(op, std::to_string(*outside), size));
      });
    });
  }

 private:
  const char* op_;
  size_t size_;
};

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
  std::optional<std::string> outside;
  with_type(array.dtype(), [&]<class T>(T) { outside = first_outside<T>(array, size); });
  return outside;
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
    throw std::invalid_argument(outside_message(op, *index, size));
  }
}

mx::array checked_indices(const char* op, const mx::array& indices, size_t size,
                          mx::StreamOrDevice s) {
  check_indices(op, indices, size, s);
  const mx::Stream stream = mx::to_stream(s);
  const bool later = stream.device == mx::Device::cpu && !cpu::MlxPrimitivesOnly::active() &&
                     !indices.is_tracer() && !indices.is_available() && indices.size() > 0;
  if (!later) return indices;
  return mx::array(indices.shape(), indices.dtype(),
                   std::make_shared<CheckIndices>(stream, op, size),
                   {mx::contiguous(indices, false, stream)});
}

}  // namespace mlx_runners
