// Element-wise rows of mlx/ops.h.
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"
#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using S = mx::StreamOrDevice;
using Unary = array(const array&, S);
using Binary = array(const array&, const array&, S);

array astype(const array& a, mx::Dtype dtype, S s) { return mx::astype(a, dtype, s); }

array nan_to_num(const array& a, float nan, std::optional<float> posinf,
                 std::optional<float> neginf, S s) {
  return mx::nan_to_num(a, nan, posinf, neginf, s);
}

// On the CPU integers are divided by an instruction that ends the process when the divisor is 0, or
// the smallest number is divided by −1. Here x / 0 is 0 and x mod 0 is 0, as in NumPy.
array guarded_divisor(const array& b, bool is_signed, S s) {
  array unsafe = mx::equal(b, array(0, b.dtype()), s);
  if (is_signed) unsafe = mx::logical_or(unsafe, mx::equal(b, array(-1, b.dtype()), s), s);
  return mx::where(unsafe, array(1, b.dtype()), b, s);
}
array floor_divide(const array& a, const array& b, S s) {
  const mx::Dtype dtype = mx::promote_types(a.dtype(), b.dtype());
  if (!mx::issubdtype(dtype, mx::integer)) return mx::floor_divide(a, b, s);
  const array x = mx::astype(a, dtype, s), y = mx::astype(b, dtype, s);
  const bool is_signed = mx::issubdtype(dtype, mx::signedinteger);
  array quotient = mx::floor_divide(x, guarded_divisor(y, is_signed, s), s);
  if (is_signed) {
    quotient = mx::where(mx::equal(y, array(-1, dtype), s), mx::negative(x, s), quotient, s);
  }
  return mx::where(mx::equal(y, array(0, dtype), s), array(0, dtype), quotient, s);
}
array remainder(const array& a, const array& b, S s) {
  const mx::Dtype dtype = mx::promote_types(a.dtype(), b.dtype());
  if (!mx::issubdtype(dtype, mx::integer)) return mx::remainder(a, b, s);
  // Divisors of 0 and −1 have become 1, whose remainder is 0.
  const bool is_signed = mx::issubdtype(dtype, mx::signedinteger);
  return mx::remainder(a, guarded_divisor(mx::astype(b, dtype, s), is_signed, s), s);
}

Op unary(const char* name, const char* doc, Unary* function) {
  return op(name, doc, function, arg("a"));
}
Op binary(const char* name, const char* doc, Binary* function) {
  return op(name, doc, function, operand("a"), operand("b"));
}

}  // namespace

std::vector<Op> elementwise_rows() {
  return {
      unary("abs", "Absolute value.", mx::abs),
      unary("negative", "−a.", mx::negative),
      unary("sign", "−1, 0 or 1.", mx::sign),
      unary("reciprocal", "1 / a.", mx::reciprocal),
      unary("square", "a².", mx::square),
      unary("sqrt", "Square root.", mx::sqrt),
      unary("rsqrt", "1 / √a.", mx::rsqrt),
      unary("exp", "e to the a.", mx::exp),
      unary("expm1", "e to the a, minus one.", mx::expm1),
      unary("log", "Natural logarithm.", mx::log),
      unary("log2", "Logarithm to base 2.", mx::log2),
      unary("log10", "Logarithm to base 10.", mx::log10),
      unary("log1p", "Natural logarithm of 1 + a.", mx::log1p),
      unary("sin", "Sine.", mx::sin),
      unary("cos", "Cosine.", mx::cos),
      unary("tan", "Tangent.", mx::tan),
      unary("arcsin", "Inverse sine.", mx::arcsin),
      unary("arccos", "Inverse cosine.", mx::arccos),
      unary("arctan", "Inverse tangent.", mx::arctan),
      unary("sinh", "Hyperbolic sine.", mx::sinh),
      unary("cosh", "Hyperbolic cosine.", mx::cosh),
      unary("tanh", "Hyperbolic tangent.", mx::tanh),
      unary("arcsinh", "Inverse hyperbolic sine.", mx::arcsinh),
      unary("arccosh", "Inverse hyperbolic cosine.", mx::arccosh),
      unary("arctanh", "Inverse hyperbolic tangent.", mx::arctanh),
      unary("sigmoid", "1 / (1 + e^−a).", mx::sigmoid),
      unary("erf", "Error function.", mx::erf),
      unary("erfinv", "Inverse error function.", mx::erfinv),
      unary("gelu", "x·Φ(x), with the exact error function.", cpu::gelu),
      unary("floor", "Rounds down.", mx::floor),
      unary("ceil", "Rounds up.", mx::ceil),
      unary("trunc", "Rounds towards zero.", mx::trunc),
      op("round", "Rounds to the nearest, halves to even.",
         select<array(const array&, int, S)>(mx::round), arg("a"), opt("decimals", 0)),
      unary("logicalNot", "True where a is zero.", mx::logical_not),
      unary("bitwiseInvert", "Inverts every bit.", mx::bitwise_invert),
      unary("isnan", "True where a is NaN.", mx::isnan),
      unary("isinf", "True where a is infinite.", mx::isinf),
      unary("isfinite", "True where a is finite.", mx::isfinite),
      unary("isposinf", "True where a is +∞.", mx::isposinf),
      unary("isneginf", "True where a is −∞.", mx::isneginf),
      unary("stopGradient", "The same values, cut off from gradients.", mx::stop_gradient),
      unary("real", "Real part of complex numbers.", mx::real),
      unary("imag", "Imaginary part of complex numbers.", mx::imag),
      unary("conjugate", "Complex conjugate.", mx::conjugate),
      binary("add", "a + b, with broadcasting.", mx::add),
      binary("subtract", "a − b, with broadcasting.", mx::subtract),
      binary("multiply", "a · b element-wise, with broadcasting.", mx::multiply),
      binary("divide", "a / b; integers give floats.", mx::divide),
      binary("floorDivide", "a / b rounded down.", floor_divide),
      binary("remainder", "Remainder of a / b, with the sign of b.", remainder),
      binary("power", "a to the b.", mx::power),
      binary("maximum", "The larger of a and b.", mx::maximum),
      binary("minimum", "The smaller of a and b.", mx::minimum),
      binary("arctan2", "Angle of the point (b, a).", mx::arctan2),
      binary("logaddexp", "log(e^a + e^b).", mx::logaddexp),
      binary("equal", "a == b.", mx::equal),
      binary("notEqual", "a != b.", mx::not_equal),
      binary("greater", "a > b.", mx::greater),
      binary("greaterEqual", "a >= b.", mx::greater_equal),
      binary("less", "a < b.", mx::less),
      binary("lessEqual", "a <= b.", mx::less_equal),
      binary("logicalAnd", "True where both are not zero.", mx::logical_and),
      binary("logicalOr", "True where one is not zero.", mx::logical_or),
      binary("bitwiseAnd", "a & b.", mx::bitwise_and),
      binary("bitwiseOr", "a | b.", mx::bitwise_or),
      binary("bitwiseXor", "a ^ b.", mx::bitwise_xor),
      binary("leftShift", "a << b.", mx::left_shift),
      binary("rightShift", "a >> b.", mx::right_shift),
      op("where", "x where the condition holds, else y.", mx::where, arg("condition"), operand("x"),
         operand("y")),
      op("clip", "Limits values to [min, max]; either may be left out.", mx::clip, operand("a"),
         opt_operand("min"), opt_operand("max")),
      op("nanToNum", "Replaces NaN and infinities by numbers.", nan_to_num, arg("a"),
         opt("nan", 0.0f), opt("posinf", none), opt("neginf", none)),
      op("astype", "Converts to another dtype.", astype, arg("a"), arg("dtype")),
      op("view", "Reads the same bytes as another dtype.",
         select<array(const array&, const mx::Dtype&, S)>(mx::view), arg("a"), arg("dtype")),
  };
}

}  // namespace mlx_runners
