// Transforms of the products with quantised weights: derivatives by x, and vmap over it.
#include <functional>
#include <string>
#include <vector>

#include "evaluations.h"
#include "harness.h"
#include "mlx/ops.h"
#include "mlx/random.h"
#include "mlx/transforms.h"
#include "ops/op.h"
#include "quant/block_arrays.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

using Arrays = std::vector<mx::array>;

/// Arrays under the ids 0, 1, 2 …
class Operands final : public ArraySource {
 public:
  explicit Operands(Arrays arrays) : arrays_(std::move(arrays)) {}
  const mx::array& at(double id) const override { return arrays_.at(static_cast<size_t>(id)); }

 private:
  Arrays arrays_;
};

/// A call of a row of the op table: the arrays, then a string or none.
mx::array call(const char* name, const Arrays& arrays, const char* text, mx::Stream stream) {
  std::vector<Value> values;
  for (size_t i = 0; i < arrays.size(); ++i) {
    values.push_back({Tag::Array, 0, static_cast<double>(i)});
  }
  if (text != nullptr) values.push_back({Tag::String, 0, static_cast<double>(intern(text))});
  const Operands operands(arrays);
  Arrays results;
  for (const Op& op : op_table()) {
    if (std::string(op.name) == name) {
      op.call({values.data(), values.size(), nullptr, 0}, operands, stream, results);
    }
  }
  return results.at(0);
}

bool close(const mx::array& a, const mx::array& b, mx::Stream stream) {
  return mx::allclose(a, b, 1e-4, 1e-4, false, stream).item<bool>();
}

mx::array numbers(mx::Shape shape, uint64_t seed, mx::Stream stream) {
  return mx::random::uniform(-1.0, 1.0, shape, mx::float32, mx::random::key(seed), stream);
}

/// `op` of x [3, 256] and weights worth `dense` [5, 256] is a linear function of x;
/// maps: there is a vmap of it.
void check(const std::function<mx::array(const mx::array&)>& op, const mx::array& dense, bool maps,
           mx::Stream stream) {
  const mx::array x = numbers({3, 256}, 1, stream);
  const mx::array weights = numbers({3, 5}, 2, stream);
  const mx::array direction = numbers({3, 256}, 3, stream);
  const mx::array columns = mx::transpose(dense, stream);
  const mx::array out = op(x);
  EXPECT(close(out, mx::matmul(x, columns, stream), stream));

  const mx::array again = op(x);  // not evaluated, so that it has its inputs
  const Arrays& inputs = again.inputs();
  const mx::array gradient = mx::matmul(weights, dense, stream);
  EXPECT(close(again.primitive().vjp(inputs, {weights}, {0}, {again})[0], gradient, stream));
  EXPECT(close(again.primitive().jvp(inputs, {direction}, {0})[0],
               mx::matmul(direction, columns, stream), stream));
  const auto f = [&](const Arrays& in) { return Arrays{op(in[0])}; };
  EXPECT(close(mx::vjp(f, {x}, {weights}).second[0], gradient, stream));
  if (!maps) return;
  const mx::array stacked = mx::stack({x, direction}, 0, stream);
  EXPECT(close(mx::vmap(f, {0})({stacked})[0], mx::matmul(stacked, columns, stream), stream));
}

}  // namespace

TEST("blocks") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    for (const BlockFormat format : {BlockFormat::Q4_0, BlockFormat::Q4_K, BlockFormat::F16}) {
      const char* name = format == BlockFormat::Q4_0   ? "Q4_0"
                         : format == BlockFormat::Q4_K ? "Q4_K"
                                                       : "F16";
      mx::array blocks = quantized(numbers({5, 256}, 4, stream), format, stream);
      mx::eval(blocks);
      const auto op = [&](const mx::array& x) {
        return call("blockLinear", {x, blocks}, name, stream);
      };
      check(op, dequantized(blocks, format, stream), true, stream);
    }
    return mx::array(0);
  });
}

TEST("affine weights") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    const Arrays parts =
        mx::quantize(numbers({5, 256}, 5, stream), 64, 4, "affine", std::nullopt, stream);
    mx::eval(parts);
    const mx::array dense = mx::dequantize(parts[0], parts[1], parts[2], 64, 4, "affine",
                                           std::nullopt, std::nullopt, stream);
    const auto op = [&](const mx::array& x) {
      return call("quantizedMatmul", {x, parts[0], parts[1], parts[2]}, nullptr, stream);
    };
    check(op, dense, false, stream);  // MLX has no vmap of it
    return mx::array(0);
  });
}
