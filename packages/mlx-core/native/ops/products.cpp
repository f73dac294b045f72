#include "ops/products.h"

#include "core/errors.h"
#include "mlx/ops.h"

namespace mlx_runners {
namespace mx = mlx::core;

cpu::Precision precision_named(const std::string& name) {
  return name == "fast" ? cpu::Precision::kFast : cpu::Precision::kExact;
}

namespace {

bool is_float(const mx::array& a) {
  return a.dtype() == mx::float32 || a.dtype() == mx::float16 || a.dtype() == mx::bfloat16;
}

[[noreturn]] void wrong(const char* name, const char* allowed) {
  throw CodedError("DTYPE", std::string(name) + " has to be of dtype " + allowed);
}

}  // namespace

void check_float(const char* name, const mx::array& argument) {
  if (!is_float(argument)) wrong(name, "float32, float16 or bfloat16");
}

mx::array factor(const char* name, const mx::array& argument, const mx::Stream& stream) {
  if (is_float(argument)) return argument;
  if (mx::issubdtype(argument.dtype(), mx::inexact)) {
    wrong(name, "float32, float16, bfloat16, an integer one or bool_");
  }
  return mx::astype(argument, mx::float32, stream);
}

mx::array factor_in_float32(const char* name, const mx::array& argument, const mx::Stream& stream) {
  return mx::astype(factor(name, argument, stream), mx::float32, stream);
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

void check_lists(const std::vector<mx::array>& w, std::initializer_list<NamedList> lists) {
  if (w.empty()) throw CodedError("SHAPE", "w has to have at least one matrix");
  for (const auto& [name, arrays] : lists) {
    if (!arrays || arrays->size() == w.size()) continue;
    throw CodedError("SHAPE", std::string(name) + " has to have an array for each matrix of w, " +
                                  std::to_string(w.size()) + ", not " +
                                  std::to_string(arrays->size()));
  }
}

}  // namespace mlx_runners
