#include <algorithm>
#include <bit>

#include "kernels/cpu/pool.h"
#include "quant/blocks.h"
#include "quant/quantize.h"

namespace mlx_runners {
namespace {

// A piece of work takes some microseconds.
constexpr int64_t weights_of_a_piece = 16384;

void dequantize(const BlockF32& block, float* out) {
  *out = std::bit_cast<float>(uint32_t{block.low.bits()} | uint32_t{block.high.bits()} << 16);
}
void dequantize(const BlockF16& block, float* out) { *out = block.weight.value(); }
void dequantize(const BlockBF16& block, float* out) { *out = block.weight.value(); }

void dequantize(const BlockQ4_0& block, float* out) {
  const float scale = block.scale.value();
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>((block.nibbles[j] & 15) - 8);
    out[j + 16] = scale * static_cast<float>((block.nibbles[j] >> 4) - 8);
  }
}

void dequantize(const BlockQ4_1& block, float* out) {
  const float scale = block.scale.value(), min = block.min.value();
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(block.nibbles[j] & 15) + min;
    out[j + 16] = scale * static_cast<float>(block.nibbles[j] >> 4) + min;
  }
}

// 0 or 16, the value of the fifth bit of code j.
int fifth(const uint8_t (&bits)[4], int j) { return (bits[j / 8] >> j % 8 & 1) << 4; }

void dequantize(const BlockQ5_0& block, float* out) {
  const float scale = block.scale.value();
  for (int j = 0; j < 16; ++j) {
    const int first = (block.nibbles[j] & 15) | fifth(block.fifth_bits, j);
    const int second = block.nibbles[j] >> 4 | fifth(block.fifth_bits, j + 16);
    out[j] = scale * static_cast<float>(first - 16);
    out[j + 16] = scale * static_cast<float>(second - 16);
  }
}

void dequantize(const BlockQ5_1& block, float* out) {
  const float scale = block.scale.value(), min = block.min.value();
  for (int j = 0; j < 16; ++j) {
    const int first = (block.nibbles[j] & 15) | fifth(block.fifth_bits, j);
    const int second = block.nibbles[j] >> 4 | fifth(block.fifth_bits, j + 16);
    out[j] = scale * static_cast<float>(first) + min;
    out[j + 16] = scale * static_cast<float>(second) + min;
  }
}

void dequantize(const BlockQ8_0& block, float* out) {
  const float scale = block.scale.value();
  for (int j = 0; j < 32; ++j) out[j] = scale * static_cast<float>(block.codes[j]);
}

// Q4_K and Q5_K differ in where the fifth bit comes from.
template <class Block, class UpperBit>
void dequantize_groups(const Block& block, float* out, UpperBit upper_bit) {
  uint8_t scales[8], mins[8];
  block.groups.unpack(scales, mins);
  const float scale = block.scale.value(), min = block.min.value();
  for (int g = 0; g < 8; ++g, out += 32) {
    const float group_scale = scale * static_cast<float>(scales[g]);
    const float group_min = min * static_cast<float>(mins[g]);
    const uint8_t* nibbles = block.nibbles + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int code = (nibbles[j] >> shift & 15) | upper_bit(g, j);
      out[j] = group_scale * static_cast<float>(code) - group_min;
    }
  }
}

void dequantize(const BlockQ4_K& block, float* out) {
  dequantize_groups(block, out, [](int, int) { return 0; });
}
void dequantize(const BlockQ5_K& block, float* out) {
  dequantize_groups(block, out, [&](int g, int j) { return (block.fifth_bits[j] >> g & 1) << 4; });
}

void dequantize(const BlockQ6_K& block, float* out) {
  const float scale = block.scale.value();
  for (int g = 0; g < 16; ++g, out += 16) {
    const int half = g / 8, quarter = g / 2 % 4, start = g % 2 * 16;
    const float group_scale = scale * static_cast<float>(block.scales[g]);
    const uint8_t* nibbles = block.nibbles + half * 64 + quarter % 2 * 32 + start;
    const uint8_t* upper_bits = block.upper_bits + half * 32 + start;
    for (int j = 0; j < 16; ++j) {
      const int upper = (upper_bits[j] >> 2 * quarter & 3) << 4;
      const int code = (nibbles[j] >> quarter / 2 * 4 & 15) | upper;
      out[j] = group_scale * static_cast<float>(code - 32);
    }
  }
}

constexpr struct {
  BlockFormat format;
  std::string_view name;
} names[] = {
    {BlockFormat::F32, "F32"},   {BlockFormat::F16, "F16"},   {BlockFormat::BF16, "BF16"},
    {BlockFormat::Q4_0, "Q4_0"}, {BlockFormat::Q4_1, "Q4_1"}, {BlockFormat::Q5_0, "Q5_0"},
    {BlockFormat::Q5_1, "Q5_1"}, {BlockFormat::Q8_0, "Q8_0"}, {BlockFormat::Q4_K, "Q4_K"},
    {BlockFormat::Q5_K, "Q5_K"}, {BlockFormat::Q6_K, "Q6_K"},
};

}  // namespace

std::string_view name_of(BlockFormat format) {
  return std::ranges::find(names, format, [](const auto& each) { return each.format; })->name;
}

std::optional<BlockFormat> block_format_named(std::string_view name) {
  for (const auto& each : names) {
    if (each.name == name) return each.format;
  }
  return std::nullopt;
}

std::string block_format_names() {
  std::string all;
  for (const auto& each : names) {
    if (!all.empty()) all += ", ";
    all += each.name;
  }
  return all;
}

void dequantize_blocks(BlockFormat format, const uint8_t* blocks, int64_t count, float* weights) {
  with_block(format, [&]<class Block, int size>() {
    const auto* from = reinterpret_cast<const Block*>(blocks);
    cpu::parallel_for(count, weights_of_a_piece / size, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dequantize(from[i], weights + i * size);
    });
  });
}

}  // namespace mlx_runners
