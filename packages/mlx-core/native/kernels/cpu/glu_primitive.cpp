// Gated linear units as an MLX primitive.
#include <sstream>
#include <stdexcept>

#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/primitives.h"
#include "kernels/cpu/rows.h"
#include "mlx/ops.h"

namespace mlx_runners::cpu {

namespace mx = mlx::core;

namespace {

/// The distance of the rows of `x` when they are contiguous and all as far apart: so are halves of
/// one projection to both operands.
std::optional<int64_t> row_distance(const mx::array& x) {
  const int axes = static_cast<int>(x.ndim());
  if (axes == 0 || (x.strides(-1) != 1 && x.shape(-1) != 1)) {
    return std::nullopt;
  }
  std::optional<int64_t> distance;
  int64_t next = 0;  // the stride that continues the rows seen so far
  for (int axis = axes - 2; axis >= 0; --axis) {
    if (x.shape(axis) == 1) {
      continue;
    }
    if (distance && x.strides(axis) != next) {
      return std::nullopt;
    }
    distance = distance.value_or(x.strides(axis));
    next = x.strides(axis) * x.shape(axis);
  }
  return distance.value_or(x.shape(-1));
}

struct Operand {
  Operand(const mx::array& x, const mx::Stream& stream)
      : rows(row_distance(x) ? x : row_contiguous(x, stream)), step(*row_distance(rows)) {}
  mx::array rows;
  int64_t step;
};

class Glu : public FusedPrimitive {
 public:
  Glu(mx::Stream stream, Composed composed, GluKind kind)
      : FusedPrimitive(stream, std::move(composed)), kind_(kind) {}
  DEFINE_NAME(FusedGlu)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const auto can_become_result = [](const mx::array& x) {
      return x.flags().row_contiguous && can_reuse(x);
    };
    if (can_become_result(inputs[0])) {
      out.copy_shared_buffer(inputs[0]);
    } else if (can_become_result(inputs[1])) {
      out.copy_shared_buffer(inputs[1]);
    } else {
      allocate(out);
    }
    const Operand gate(inputs[0], stream());
    const Operand up(inputs[1], stream());
    const int64_t columns = out.shape(-1);
    const int64_t rows = static_cast<int64_t>(out.size()) / columns;
    dispatch(stream(), [kind = kind_, gate = gate.rows.data<float>(), gate_step = gate.step,
                        up = up.rows.data<float>(), up_step = up.step, to = out.data<float>(), rows,
                        columns] { glu(kind, gate, gate_step, up, up_step, to, rows, columns); });
  }

 private:
  GluKind kind_;
};

mx::array activation(GluKind kind, const mx::array& x, const mx::Stream& stream) {
  const auto number = [&](double value) { return mx::array(static_cast<float>(value), x.dtype()); };
  const auto times = [&](const mx::array& a, const mx::array& b) {
    return mx::multiply(a, b, stream);
  };
  if (kind == GluKind::kSwiglu) {
    return times(x, mx::sigmoid(x, stream));
  }
  if (kind == GluKind::kGegluErf) {
    return gelu(x, stream);
  }
  const mx::array inner =
      mx::add(number(1.0), times(number(0.044715), mx::square(x, stream)), stream);
  const mx::array z = times(number(0.7978845608028654), times(x, inner));
  return times(times(number(0.5), x), mx::add(number(1.0), mx::tanh(z, stream), stream));
}

mx::array gated(GluKind kind, const mx::array& given, const mx::array& up, mx::StreamOrDevice s) {
  if (given.shape() != up.shape()) {
    std::ostringstream message;
    message << "[glu] gate and up have to be of one shape, not " << given.shape() << " and "
            << up.shape() << ".";
    throw std::invalid_argument(message.str());
  }
  const mx::Stream stream = mx::to_stream(s);
  const mx::array gate = inexact(given, stream);
  auto composed = [kind, stream](const std::vector<mx::array>& in) {
    return std::vector<mx::array>{mx::multiply(activation(kind, in[0], stream), in[1], stream)};
  };
  if (gate.ndim() == 0 || !can_fuse(stream, {gate, up})) {
    return composed({gate, up})[0];
  }
  return mx::array(gate.shape(), mx::float32,
                   std::make_shared<Glu>(stream, std::move(composed), kind), {gate, up});
}

}  // namespace

mx::array swiglu(const mx::array& gate, const mx::array& up, mx::StreamOrDevice s) {
  return gated(GluKind::kSwiglu, gate, up, s);
}

mx::array geglu(const mx::array& gate, const mx::array& up, bool approximate,
                mx::StreamOrDevice s) {
  return gated(approximate ? GluKind::kGegluTanh : GluKind::kGegluErf, gate, up, s);
}

}  // namespace mlx_runners::cpu
