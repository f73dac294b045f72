// Rows of mlx/ops.h that multiply matrices or convolve, and mlx/linalg.h.
#include <stdexcept>

#include "kernels/cpu/primitives.h"
#include "mlx/linalg.h"
#include "mlx/ops.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using S = mx::StreamOrDevice;

// x · weightᵀ + bias, as torch.nn.functional.linear: weight is [out, in].
array linear(const array& x, const array& weight, const std::optional<array>& bias, S s) {
  const array transposed = mx::transpose(weight, s);
  return bias ? mx::addmm(*bias, x, transposed, 1.0f, 1.0f, s) : mx::matmul(x, transposed, s);
}

array addmm(const array& c, const array& a, const array& b, float alpha, float beta, S s) {
  return mx::addmm(c, a, b, alpha, beta, s);
}
array norm(const array& a, Axes axes, bool keepdims, S s) {
  return axes ? mx::linalg::norm(a, *axes, keepdims, s)
              : mx::linalg::norm(a, std::optional<std::vector<int>>(), keepdims, s);
}

// MLX divides by these without looking at them.
void check_convolution(const array& input, int stride, int padding, int dilation, int groups) {
  if (input.ndim() == 3 && input.shape(2) == 0) {
    throw std::invalid_argument("[conv1d] input has to have at least one channel.");
  }
  if (stride < 1 || dilation < 1 || groups < 1 || padding < 0) {
    throw std::invalid_argument(
        "[conv1d] stride, dilation and groups have to be at least 1, padding at least 0.");
  }
}
array conv1d(const array& input, const array& weight, int stride, int padding, int dilation,
             int groups, S s) {
  check_convolution(input, stride, padding, dilation, groups);
  return mx::conv1d(input, weight, stride, padding, dilation, groups, s);
}
array conv1d_on_cpu(const array& input, const array& weight, int stride, int padding, int dilation,
                    int groups, S s) {
  check_convolution(input, stride, padding, dilation, groups);
  return cpu::conv1d(input, weight, stride, padding, dilation, groups, s);
}

}  // namespace

std::vector<Op> linear_rows() {
  return {
      op("matmul", "Matrix product over the last two axes.", mx::matmul, arg("a"), arg("b"))
          .on_cpu(cpu::matmul),
      op("addmm", "beta · c + alpha · a · b.", addmm, arg("c"), arg("a"), arg("b"),
         opt("alpha", 1.0f), opt("beta", 1.0f)),
      op("linear", "x · weightᵀ + bias; weight is [out, in].", linear, arg("x"), arg("weight"),
         opt("bias", none))
          .on_cpu(cpu::linear),
      op("outer", "Outer product.", mx::outer, arg("a"), arg("b")),
      op("inner", "Inner product over the last axes.", mx::inner, arg("a"), arg("b")),
      op("conv1d", "Convolution of input [N, L, C_in] with weight [C_out, K, C_in / groups].",
         conv1d, arg("input"), arg("weight"), opt("stride", 1), opt("padding", 0),
         opt("dilation", 1), opt("groups", 1))
          .on_cpu(conv1d_on_cpu),
      op("norm", "Euclidean norm of vectors, Frobenius norm of matrices.", norm, arg("a"),
         opt("axes", none), opt("keepdims", false)),
  };
}

}  // namespace mlx_runners
