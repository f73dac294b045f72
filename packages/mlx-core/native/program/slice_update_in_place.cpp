#include "program/slice_update_in_place.h"

#include <cstring>
#include <memory>
#include <utility>

#include "kernels/cpu/fused_primitive.h"
#include "mlx/ops.h"

namespace mlx_runners::program {

namespace mx = mlx::core;

namespace {

// Copies rows, each of `row` elements, from one strided array to another of the same shape.
struct StridedCopy {
  mx::Shape shape;
  mx::Strides from_strides;
  mx::Strides to_strides;
  size_t itemsize;

  void run(const char* from, char* to) const {
    const int axes = static_cast<int>(shape.size());
    const int64_t row = axes == 0 ? 1 : shape[axes - 1];
    const int64_t from_step = axes == 0 ? 1 : from_strides[axes - 1];
    const int64_t to_step = axes == 0 ? 1 : to_strides[axes - 1];
    size_t rows = 1;
    for (int axis = 0; axis + 1 < axes; ++axis) rows *= shape[axis];
    std::vector<int64_t> index(std::max(axes, 1), 0);
    int64_t from_at = 0, to_at = 0;
    for (size_t i = 0; i < rows; ++i) {
      copy_row(from + from_at * itemsize, to + to_at * itemsize, row, from_step, to_step);
      for (int axis = axes - 2; axis >= 0; --axis) {
        from_at += from_strides[axis];
        to_at += to_strides[axis];
        if (++index[axis] < shape[axis]) break;
        from_at -= from_strides[axis] * shape[axis];
        to_at -= to_strides[axis] * shape[axis];
        index[axis] = 0;
      }
    }
  }

  void copy_row(const char* from, char* to, int64_t count, int64_t from_step,
                int64_t to_step) const {
    if (from_step == 1 && to_step == 1) {
      std::memcpy(to, from, count * itemsize);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_step * itemsize, from + i * from_step * itemsize, itemsize);
    }
  }
};

class SliceUpdateInPlace : public cpu::FusedPrimitive {
 public:
  SliceUpdateInPlace(mx::Stream stream, cpu::Composed composed, mx::Shape start)
      : FusedPrimitive(stream, std::move(composed)), start_(std::move(start)) {}
  DEFINE_NAME(SliceUpdateInPlace)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const mx::array& update = inputs[1];
    out.copy_shared_buffer(inputs[0]);
    int64_t first = 0;
    for (size_t axis = 0; axis < start_.size(); ++axis) first += start_[axis] * out.strides(axis);
    const size_t itemsize = out.itemsize();
    StridedCopy copy{update.shape(), update.strides(), out.strides(), itemsize};
    cpu::dispatch(stream(), [copy = std::move(copy), from = update.data<char>(),
                             to = out.data<char>() + first * static_cast<int64_t>(itemsize)] {
      copy.run(from, to);
    });
  }

 private:
  mx::Shape start_;
};

}  // namespace

mx::array slice_update_in_place(const mx::array& a, const mx::array& update, mx::Shape start,
                                mx::Shape stop, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
  bool plain = stream.device == mx::Device::cpu && update.size() > 0 && !a.is_tracer() &&
               !update.is_tracer() && update.dtype() == a.dtype() && update.ndim() == a.ndim() &&
               start.size() == a.ndim() && stop.size() == a.ndim();
  for (size_t axis = 0; plain && axis < a.ndim(); ++axis) {
    plain = start[axis] >= 0 && stop[axis] <= a.shape(axis) &&
            stop[axis] - start[axis] == update.shape(axis);
  }
  if (!plain) return mx::slice_update(a, update, std::move(start), std::move(stop), stream);
  auto composed = [start, stop, stream](const std::vector<mx::array>& in) {
    return std::vector<mx::array>{mx::slice_update(in[0], in[1], start, stop, stream)};
  };
  return mx::array(
      a.shape(), a.dtype(),
      std::make_shared<SliceUpdateInPlace>(stream, std::move(composed), std::move(start)),
      {a, update});
}

}  // namespace mlx_runners::program
