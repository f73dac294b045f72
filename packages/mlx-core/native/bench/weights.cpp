#include "bench/weights.h"

#include <algorithm>
#include <random>

namespace mlx_runners::bench {

using cpu::WeightFormat;
using cpu::WeightMatrix;

bool fits(const Format& format, int64_t depth) {
  return depth % std::max(format.group, cpu::block_weights(format.format)) == 0;
}

std::vector<uint8_t> make_arena() {
  std::vector<uint8_t> bytes(static_cast<size_t>(kSlices * kSliceBytes));
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < kSlices * kSliceBytes; i += 8) {
    const uint64_t word = random() & 0xbbffbbffbbffbbffULL;
    std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8, bytes.data() + i);
  }
  return bytes;
}

WeightMatrix matrix_at(const uint8_t* place, const Format& format, int64_t columns, int64_t depth) {
  WeightMatrix w{.format = format.format, .rows = {}, .columns = columns};
  w.rows.codes = place;
  w.rows.depth = depth;
  if (format.group == 0) {
    const auto [weights, bytes] = block_size(static_cast<BlockFormat>(format.format));
    w.rows.row_bytes = depth / weights * bytes;
    return w;
  }
  w.rows.row_bytes = depth * (format.format == WeightFormat::Affine4_F16 ? 4 : 8) / 8;
  w.rows.scale_step = depth / format.group;
  w.rows.group_shift = format.group == 64 ? 1 : 0;
  w.rows.scales = place + columns * w.rows.row_bytes;
  w.rows.biases = w.rows.scales + columns * w.rows.scale_step * 2;
  return w;
}

int64_t matrix_step(const Format& format, int64_t columns, int64_t depth) {
  const WeightMatrix w = matrix_at(nullptr, format, columns, depth);
  const int64_t scales = format.group > 0 ? depth / format.group * 4 : 0;
  return (columns * (w.rows.row_bytes + scales) + 63) / 64 * 64;
}

std::vector<float> make_activations(int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  std::mt19937 random(2);
  std::uniform_real_distribution<float> distribution(-1, 1);
  for (float& value : x) value = distribution(random);
  return x;
}

}  // namespace mlx_runners::bench
