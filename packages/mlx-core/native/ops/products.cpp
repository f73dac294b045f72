#include "ops/products.h"

#include "core/errors.h"
#include "mlx/ops.h"

namespace mlx_runners {
namespace mx = mlx::core;

cpu::Precision precision_named(const std::string& name) {
  if (name == "exact") return cpu::Precision::kExact;
  if (name == "fast") return cpu::Precision::kFast;
  throw CodedError("DTYPE", "precision has to be 'exact' or 'fast'");
}

mx::array in_float32(const mx::array& x, const mx::Stream& stream) {
  const bool half = x.dtype() == mx::float16 || x.dtype() == mx::bfloat16;
  return half ? mx::astype(x, mx::float32, stream) : x;
}

void check_rows(const mx::array& x, int depth) {
  if (x.ndim() == 0 || x.shape(-1) != depth) {
    throw CodedError("SHAPE", "the last axis of x has to have the weights of a row of w, " +
                                  std::to_string(depth));
  }
}

void check_bias(const std::optional<mx::array>& bias, const mx::array& w) {
  if (bias && bias->shape() != mx::Shape{w.shape(0)}) {
    throw CodedError("SHAPE",
                     "bias has to have one number per row of w, " + std::to_string(w.shape(0)));
  }
}

}  // namespace mlx_runners
