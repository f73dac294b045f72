// Rows of mlx/random.h. Every one takes its key explicitly: hidden state would tie results to the
// thread that happens to draw them.
#include "mlx/random.h"

#include <cmath>
#include <stdexcept>

#include "ops/rows.h"

namespace mlx_runners {
namespace {

using mx::array;
using mx::Shape;
using S = mx::StreamOrDevice;

array key(double seed, S) {
  if (!(seed >= 0 && seed <= 9007199254740991.0) || seed != std::floor(seed)) {
    throw std::invalid_argument(
        "[random_key] the seed has to be a whole number from 0 to 2⁵³ − 1.");
  }
  return mx::random::key(static_cast<uint64_t>(seed));
}
array split(const array& key, int count, S s) { return mx::random::split(key, count, s); }
array uniform(const array& key, const Shape& shape, double low, double high, mx::Dtype dtype, S s) {
  return mx::random::uniform(array(low, dtype), array(high, dtype), shape, dtype, key, s);
}
array normal(const array& key, const Shape& shape, mx::Dtype dtype, S s) {
  return mx::random::normal(shape, dtype, std::nullopt, std::nullopt, key, s);
}
array randint(const array& key, const Shape& shape, int low, int high, mx::Dtype dtype, S s) {
  return mx::random::randint(array(low), array(high), shape, dtype, key, s);
}
array bernoulli(const array& key, const array& p, const Shape& shape, S s) {
  return mx::random::bernoulli(p, shape, key, s);
}
array gumbel(const array& key, const Shape& shape, mx::Dtype dtype, S s) {
  return mx::random::gumbel(shape, dtype, key, s);
}
array categorical(const array& key, const array& logits, int axis, S s) {
  return mx::random::categorical(logits, axis, key, s);
}

}  // namespace

std::vector<Op> random_rows() {
  return {
      op("randomKey", "A key for the random ops, from a whole number.", key, arg("seed")),
      op("randomSplit", "New keys [count, 2] from one key.", split, arg("key"), opt("count", 2)),
      op("randomUniform", "Uniform numbers in [low, high).", uniform, arg("key"), arg("shape"),
         opt("low", 0.0), opt("high", 1.0), opt("dtype", mx::float32)),
      op("randomNormal", "Standard normal numbers.", normal, arg("key"), arg("shape"),
         opt("dtype", mx::float32)),
      op("randomInteger", "Whole numbers in [low, high).", randint, arg("key"), arg("shape"),
         arg("low"), arg("high"), opt("dtype", mx::int32)),
      op("randomBernoulli", "True with probability p.", bernoulli, arg("key"), operand("p"),
         arg("shape")),
      op("randomGumbel", "Standard Gumbel numbers.", gumbel, arg("key"), arg("shape"),
         opt("dtype", mx::float32)),
      op("randomCategorical", "An index per row, drawn with probability softmax(logits).",
         categorical, arg("key"), arg("logits"), opt("axis", -1)),
  };
}

}  // namespace mlx_runners
