// Blocks between forbidden pages: all bits are valid blocks, all numbers can be quantised, and what
// comes back is near.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "guarded.h"
#include "harness.h"
#include "quant/half.h"
#include "quant/quantize.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

constexpr BlockFormat formats[] = {BlockFormat::F32,  BlockFormat::F16,  BlockFormat::BF16,
                                   BlockFormat::Q4_0, BlockFormat::Q4_1, BlockFormat::Q5_0,
                                   BlockFormat::Q5_1, BlockFormat::Q8_0, BlockFormat::Q4_K,
                                   BlockFormat::Q5_K, BlockFormat::Q6_K};

struct Blocks {
  explicit Blocks(std::mt19937_64& random)
      : format(formats[draw(random, 0, std::ssize(formats) - 1)]),
        count(draw_size(random, 5, 300)),
        weights(static_cast<size_t>(count * block_size(format).weights), random),
        bytes(static_cast<size_t>(count * block_size(format).bytes), random) {}

  BlockFormat format;
  int64_t count;
  Guarded<float> weights;
  Guarded<uint8_t> bytes;
};

// The largest error of any weight in units of its block's range: half a step, and what rounding the
// scale costs.
double bound(BlockFormat format) {
  switch (format) {
    case BlockFormat::F32:
      return 0;
    case BlockFormat::F16:
      return 1.0 / 2048;
    case BlockFormat::BF16:
      return 1.0 / 256;
    case BlockFormat::Q4_0:
      return 1.0 / 15;
    case BlockFormat::Q4_1:
      return 0.6 / 15;
    case BlockFormat::Q5_0:
      return 1.0 / 31;
    case BlockFormat::Q5_1:
      return 0.6 / 31;
    case BlockFormat::Q8_0:
      return 0.6 / 127;
    // The best fit may cut off what is far from the rest.
    case BlockFormat::Q4_K:
      return 1.5 / 15;
    case BlockFormat::Q5_K:
      return 1.5 / 31;
    case BlockFormat::Q6_K:
      return 1.5 / 31;
  }
  return 0;
}

}  // namespace

TEST("any bytes are dequantised") {
  random_cases(300, [](std::mt19937_64& random) {
    const Blocks blocks(random);
    for (uint8_t& byte : blocks.bytes) byte = static_cast<uint8_t>(draw(random, 0, 255));
    dequantize_blocks(blocks.format, blocks.bytes.data(), blocks.count, blocks.weights.data());
  });
}

TEST("any numbers are quantised") {
  random_cases(300, [](std::mt19937_64& random) {
    const Blocks blocks(random);
    for (float& weight : blocks.weights) {
      weight = std::bit_cast<float>(static_cast<uint32_t>(draw(random, 0, 0xffffffff)));
    }
    quantize_blocks(blocks.format, blocks.weights.data(), blocks.count, blocks.bytes.data());
  });
}

TEST("weights come back near") {
  random_cases(300, [](std::mt19937_64& random) {
    const Blocks blocks(random);
    fill_numbers(blocks.weights, random, static_cast<float>(draw(random, 1, 50)) / 10);
    const std::vector<float> before(blocks.weights.begin(), blocks.weights.end());
    quantize_blocks(blocks.format, blocks.weights.data(), blocks.count, blocks.bytes.data());
    dequantize_blocks(blocks.format, blocks.bytes.data(), blocks.count, blocks.weights.data());
    const auto size = static_cast<size_t>(block_size(blocks.format).weights);
    for (size_t start = 0; start < before.size(); start += size) {
      const auto [low, high] =
          std::minmax_element(before.begin() + static_cast<int64_t>(start),
                              before.begin() + static_cast<int64_t>(start + size));
      const double range = size == 1 ? std::abs(*high) : double{*high} - *low;
      for (size_t i = start; i < start + size; ++i) {
        const double distance = std::abs(double{blocks.weights[i]} - before[i]);
        if (distance <= bound(blocks.format) * range + 1e-7) continue;
        throw Failure(std::string(name_of(blocks.format)) + ": " + std::to_string(before[i]) +
                      " came back as " + std::to_string(blocks.weights[i]));
      }
    }
  });
}
