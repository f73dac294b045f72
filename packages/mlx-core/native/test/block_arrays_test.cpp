// The two ways from blocks to weights, the CPU's kernel and MLX's ops, give the same numbers.
#include "quant/block_arrays.h"

#include <bit>
#include <cmath>
#include <vector>

#include "evaluations.h"
#include "harness.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"
#include "quant/quantize.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;
namespace mx = mlx::core;

namespace {

constexpr BlockFormat formats[] = {BlockFormat::F32,  BlockFormat::F16,  BlockFormat::BF16,
                                   BlockFormat::Q4_0, BlockFormat::Q4_1, BlockFormat::Q5_0,
                                   BlockFormat::Q5_1, BlockFormat::Q8_0, BlockFormat::Q4_K,
                                   BlockFormat::Q5_K, BlockFormat::Q6_K};

// Blocks of weights that were quantised, whose scales are finite, with random codes in between.
mx::array random_blocks(BlockFormat format, std::mt19937_64& random, mx::Stream stream) {
  const int rows = static_cast<int>(draw(random, 1, 3));
  const int count = static_cast<int>(draw(random, 1, 4)) * block_size(format).weights;
  std::normal_distribution<float> normal;
  std::vector<float> weights(static_cast<size_t>(rows * count));
  for (float& weight : weights) weight = normal(random);
  return quantized(mx::array(weights.begin(), {rows, 1, count}), format, stream);
}

}  // namespace

TEST("formulas in MLX's ops equal the kernel") {
  Builder builder;
  for (const BlockFormat format : formats) {
    random_cases(5, [&](std::mt19937_64& random) {
      LaneLock lock(builder.lane, builder.stream);
      const mx::array blocks = random_blocks(format, random, builder.stream);
      mx::array kernel = dequantized_on_cpu(blocks, format, builder.stream);
      mx::array formula = dequantized(blocks, format, builder.stream);
      EXPECT(kernel.shape() == formula.shape());
      mx::eval({kernel, formula});
      for (size_t i = 0; i < kernel.size(); ++i) {
        EXPECT_EQUAL(kernel.data<float>()[i], formula.data<float>()[i]);
      }
    });
  }
}

TEST("the kernel takes part in vmap") {
  Builder builder;
  std::mt19937_64 random(1);
  LaneLock lock(builder.lane, builder.stream);
  const mx::array blocks = random_blocks(BlockFormat::Q4_K, random, builder.stream);
  const auto each = mx::vmap([&](const mx::array& row) {
    return dequantized_on_cpu(row, BlockFormat::Q4_K, builder.stream);
  });
  mx::array mapped = each(blocks);
  mx::array whole = dequantized_on_cpu(blocks, BlockFormat::Q4_K, builder.stream);
  mx::array equal = mx::array_equal(mapped, whole, builder.stream);
  mx::eval({equal});
  EXPECT(equal.item<bool>());
}
