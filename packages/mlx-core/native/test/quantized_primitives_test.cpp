// Transforms of the products with quantised weights and with those of 16 bits: derivatives by x,
// and vmap over it; and of the rows taken from tables of them.
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
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

/// A call of a row of the op table: arrays or nothing, then a string or none, then integers.
mx::array call(const char* name, const std::vector<std::optional<mx::array>>& given,
               const char* text, mx::Stream stream, const std::vector<int>& integers = {}) {
  std::vector<Value> values;
  Arrays arrays;
  for (const std::optional<mx::array>& array : given) {
    values.push_back(array ? Value{Tag::Array, 0, static_cast<double>(arrays.size())} : Value{});
    if (array) arrays.push_back(*array);
  }
  if (text != nullptr) values.push_back({Tag::String, 0, static_cast<double>(intern(text))});
  for (const int integer : integers) values.push_back({Tag::Int, 0, static_cast<double>(integer)});
  const Operands operands(arrays);
  Arrays results;
  for (const Op& op : op_table()) {
    if (std::string(op.name) == name) {
      op.call({values.data(), values.size(), nullptr, 0}, operands, stream, results);
    }
  }
  return results.at(0);
}

/// blockLinears of x with matrices, and a bias for each.
Arrays block_linears(const mx::array& x, const Arrays& w, const char* format, const Arrays& biases,
                     mx::Stream stream) {
  Arrays arrays{x};
  arrays.insert(arrays.end(), w.begin(), w.end());
  arrays.insert(arrays.end(), biases.begin(), biases.end());
  std::vector<double> lists(arrays.size() - 1);
  std::iota(lists.begin(), lists.end(), 1.0);
  const auto count = static_cast<uint32_t>(w.size());
  const Value values[] = {{Tag::Array, 0, 0},
                          {Tag::Arrays, count, 0},
                          {Tag::String, 0, static_cast<double>(intern(format))},
                          {Tag::Arrays, count, static_cast<double>(count)}};
  const Operands operands(arrays);
  Arrays results;
  for (const Op& op : op_table()) {
    if (std::string(op.name) == "blockLinears") {
      op.call({values, std::size(values), lists.data(), lists.size()}, operands, stream, results);
    }
  }
  return results;
}

bool close(const mx::array& a, const mx::array& b, mx::Stream stream) {
  return mx::allclose(a, b, 1e-4, 1e-4, false, stream).item<bool>();
}

mx::array numbers(mx::Shape shape, uint64_t seed, mx::Stream stream) {
  return mx::random::uniform(-1.0, 1.0, shape, mx::float32, mx::random::key(seed), stream);
}

/// `op` of x [3, 256] and weights worth `dense` [5, 256] is a linear function of x.
void check(const std::function<mx::array(const mx::array&)>& op, const mx::array& dense,
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
      check(op, dequantized(blocks, format, stream), stream);
    }
    return mx::array(0);
  });
}

TEST("several matrices of blocks") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    Arrays blocks;
    Arrays columns;
    Arrays biases;
    Arrays weights;  // of the results, in a sum
    for (const int count : {5, 3, 6}) {
      const auto seed = static_cast<uint64_t>(count);
      blocks.push_back(quantized(numbers({count, 256}, seed, stream), BlockFormat::Q4_0, stream));
      columns.push_back(mx::transpose(dequantized(blocks.back(), BlockFormat::Q4_0, stream)));
      biases.push_back(numbers({count}, seed, stream));
      weights.push_back(numbers({3, count}, seed + 10, stream));
    }
    mx::eval(blocks);
    const auto f = [&](const Arrays& in) {
      return block_linears(in[0], blocks, "Q4_0", biases, stream);
    };
    const auto g = [&](const Arrays& in) {
      Arrays results;
      for (size_t i = 0; i < blocks.size(); ++i) {
        results.push_back(mx::add(mx::matmul(in[0], columns[i], stream), biases[i], stream));
      }
      return results;
    };
    const auto expect_close = [&](const Arrays& actual, const Arrays& expected) {
      EXPECT_EQUAL(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) EXPECT(close(actual[i], expected[i], stream));
    };
    const mx::array x = numbers({3, 256}, 1, stream);
    const mx::array direction = numbers({3, 256}, 2, stream);
    expect_close(f({x}), g({x}));
    expect_close(mx::vjp(f, {x}, weights).second, mx::vjp(g, {x}, weights).second);
    expect_close(mx::jvp(f, {x}, {direction}).second, mx::jvp(g, {x}, {direction}).second);
    const mx::array stacked = mx::stack({x, direction}, 0, stream);
    expect_close(mx::vmap(f, {0})({stacked}), g({stacked}));

    // The primitive's own, which nothing above builds.
    const Arrays again = f({x});
    Arrays inputs = again[0].inputs();
    expect_close(again[0].primitive().vjp(inputs, weights, {0}, again),
                 mx::vjp(g, {x}, weights).second);
    std::vector<int> axes(inputs.size(), -1);
    axes[0] = 0;
    inputs[0] = stacked;
    expect_close(again[0].primitive().vmap(inputs, axes).first, g({stacked}));
    return mx::array(0);
  });
}

TEST("MLX's formats") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    const Arrays parts =
        mx::quantize(numbers({5, 256}, 5, stream), 64, 4, "affine", std::nullopt, stream);
    mx::eval(parts);
    const mx::array dense = mx::dequantize(parts[0], parts[1], parts[2], 64, 4, "affine",
                                           std::nullopt, std::nullopt, stream);
    check(
        [&](const mx::array& x) {
          return call("quantizedMatmul", {x, parts[0], parts[1], parts[2]}, nullptr, stream);
        },
        dense, stream);

    const auto linear = [&](const mx::array& x, const mx::array& bias) {
      return call("quantizedLinear", {x, parts[0], parts[1], parts[2], bias}, nullptr, stream);
    };
    const mx::array bias = numbers({5}, 6, stream);
    const mx::array added = linear(mx::zeros({3, 256}, stream), bias);
    EXPECT(close(added, mx::broadcast_to(bias, {3, 5}, stream), stream));
    const mx::array none = mx::zeros({5}, stream);
    check([&](const mx::array& x) { return linear(x, none); }, dense, stream);
    return mx::array(0);
  });
}

TEST("matrices of MLX's formats that indices name") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    const Arrays parts =
        mx::quantize(numbers({4, 5, 256}, 7, stream), 64, 4, "affine", std::nullopt, stream);
    mx::eval(parts);
    const mx::array dense = mx::dequantize(parts[0], parts[1], parts[2], 64, 4, "affine",
                                           std::nullopt, std::nullopt, stream);
    // The first matrix for the second row, and so on: rows of x and of the result in one order.
    const mx::array left = mx::array({1, 2, 0}, mx::int32);
    const mx::array right = mx::array({3, 1, 3}, mx::int32);
    const auto op = [&](const mx::array& x) {
      const mx::array rows = mx::reshape(x, {3, 1, 256}, stream);
      return call("gatherQmm", {rows, parts[0], parts[1], parts[2], left, right}, nullptr, stream);
    };
    const auto expected = [&](const mx::array& x) {
      const mx::array rows = mx::take(mx::reshape(x, {3, 1, 256}, stream), left, 0, stream);
      const mx::array chosen = mx::take(dense, right, 0, stream);
      return mx::matmul(rows, mx::swapaxes(chosen, 1, 2, stream), stream);
    };
    const mx::array x = numbers({3, 256}, 1, stream);
    const mx::array direction = numbers({3, 256}, 3, stream);
    const mx::array weights = numbers({3, 1, 5}, 2, stream);
    EXPECT(close(op(x), expected(x), stream));
    const auto f = [&](const Arrays& in) { return Arrays{op(in[0])}; };
    const auto g = [&](const Arrays& in) { return Arrays{expected(in[0])}; };
    EXPECT(
        close(mx::vjp(f, {x}, {weights}).second[0], mx::vjp(g, {x}, {weights}).second[0], stream));
    EXPECT(close(mx::jvp(f, {x}, {direction}).second[0], expected(direction), stream));
    const mx::array stacked = mx::stack({x, direction}, 0, stream);
    EXPECT(close(mx::vmap(f, {0})({stacked})[0],
                 mx::stack({expected(x), expected(direction)}, 0, stream), stream));

    // The primitive's own, which nothing above builds.
    const mx::array again = op(x);
    const Arrays& inputs = again.inputs();
    const mx::array gradient = again.primitive().vjp(inputs, {weights}, {0}, {again})[0];
    EXPECT(close(mx::reshape(gradient, {3, 256}, stream), mx::vjp(g, {x}, {weights}).second[0],
                 stream));
    return mx::array(0);
  });
}

TEST("rows of MLX's formats") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    const Arrays parts =
        mx::quantize(numbers({7, 64}, 8, stream), 32, 5, "affine", std::nullopt, stream);
    mx::eval(parts);
    const mx::array ids = mx::array({6, 0, -1, 2}, mx::int32);
    const auto rows_of = [&](const mx::array& scales) {
      const mx::array all = mx::dequantize(parts[0], scales, parts[2], 32, 5, "affine",
                                           std::nullopt, std::nullopt, stream);
      return mx::take(all, ids, 0, stream);
    };
    // The row's arguments after the arrays: groupSize and bits.
    const auto op = [&](const mx::array& scales, const mx::array& indices) {
      return call("quantizedTake", {parts[0], scales, parts[2], indices}, nullptr, stream, {32, 5});
    };
    EXPECT(close(op(parts[1], ids), rows_of(parts[1]), stream));
    const auto by_ids = [&](const Arrays& in) { return Arrays{op(parts[1], in[0])}; };
    const mx::array pairs = mx::reshape(ids, {2, 2}, stream);
    EXPECT(close(mx::vmap(by_ids, {0})({pairs})[0],
                 mx::reshape(rows_of(parts[1]), {2, 2, 64}, stream), stream));
    const auto by_scales = [&](const Arrays& in) { return Arrays{op(in[0], ids)}; };
    const auto reference = [&](const Arrays& in) { return Arrays{rows_of(in[0])}; };
    const mx::array ones = mx::ones({4, 64}, stream);
    EXPECT(close(mx::vjp(by_scales, {parts[1]}, {ones}).second[0],
                 mx::vjp(reference, {parts[1]}, {ones}).second[0], stream));
    return mx::array(0);
  });
}

TEST("weights of 16 bits") {
  Builder builder;
  builder.build([&] {
    const mx::Stream stream = builder.stream;
    for (const mx::Dtype dtype : {mx::float16, mx::bfloat16}) {
      mx::array weights = mx::astype(numbers({5, 256}, 9, stream), dtype, stream);
      mx::eval(weights);
      const mx::array dense = mx::astype(weights, mx::float32, stream);
      check([&](const mx::array& x) { return call("linear", {x, weights}, nullptr, stream); },
            dense, stream);
      check(
          [&](const mx::array& x) {
            return call("matmul", {x, mx::transpose(weights, stream)}, nullptr, stream);
          },
          dense, stream);
    }
    return mx::array(0);
  });
}
