#include "quant/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/pool.h"
#include "quant/blocks.h"
#include "quant/quantize_k.h"

namespace mlx_runners {
namespace {

constexpr int64_t weights_of_a_piece = 4096;

// Towards 0; NaN becomes 0.
uint8_t code(float number, int largest) {
  if (!(number > 0)) return 0;
  return static_cast<uint8_t>(std::min(number, static_cast<float>(largest)));
}

float inverse_of(float scale) { return scale == 0 ? 0 : 1 / scale; }

void quantize(const float* x, BlockF32& block) {
  const auto bits = std::bit_cast<uint32_t>(*x);
  block.low.set(static_cast<uint16_t>(bits));
  block.high.set(static_cast<uint16_t>(bits >> 16));
}
void quantize(const float* x, BlockF16& block) { block.weight.store(*x); }
void quantize(const float* x, BlockBF16& block) { block.weight.store(*x); }

void pack(const uint8_t (&codes)[32], uint8_t (&nibbles)[16]) {
  for (int j = 0; j < 16; ++j) {
    nibbles[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 16] & 15) << 4);
  }
}
void pack(const uint8_t (&codes)[32], uint8_t (&nibbles)[16], uint8_t (&fifth_bits)[4]) {
  pack(codes, nibbles);
  for (int i = 0; i < 4; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= codes[8 * i + j] >> 4 << j;
    fifth_bits[i] = static_cast<uint8_t>(bits);
  }
}

// The number farthest from 0 gets the lowest code, which is one farther from 0 than the highest.
void quantize_around_zero(const float* x, int middle, Half& scale, uint8_t (&codes)[32]) {
  float extreme = x[0];
  for (int j = 1; j < 32; ++j) {
    if (std::abs(x[j]) > std::abs(extreme)) extreme = x[j];
  }
  const float step = extreme / static_cast<float>(-middle);
  const float inverse = inverse_of(step);
  const float offset = static_cast<float>(middle) + 0.5f;
  for (int j = 0; j < 32; ++j) codes[j] = code(x[j] * inverse + offset, 2 * middle - 1);
  scale.store(step);
}

// The smallest number gets code 0, the largest the highest.
void quantize_between(const float* x, int highest, Half& scale, Half& min, uint8_t (&codes)[32]) {
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float step = (*high - *low) / static_cast<float>(highest);
  const float inverse = inverse_of(step);
  for (int j = 0; j < 32; ++j) codes[j] = code((x[j] - *low) * inverse + 0.5f, highest);
  scale.store(step);
  min.store(*low);
}

void quantize(const float* x, BlockQ4_0& block) {
  uint8_t codes[32];
  quantize_around_zero(x, 8, block.scale, codes);
  pack(codes, block.nibbles);
}
void quantize(const float* x, BlockQ5_0& block) {
  uint8_t codes[32];
  quantize_around_zero(x, 16, block.scale, codes);
  pack(codes, block.nibbles, block.fifth_bits);
}
void quantize(const float* x, BlockQ4_1& block) {
  uint8_t codes[32];
  quantize_between(x, 15, block.scale, block.min, codes);
  pack(codes, block.nibbles);
}
void quantize(const float* x, BlockQ5_1& block) {
  uint8_t codes[32];
  quantize_between(x, 31, block.scale, block.min, codes);
  pack(codes, block.nibbles, block.fifth_bits);
}

void quantize(const float* x, BlockQ8_0& block) {
  float largest = 0;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::abs(x[j]));
  const float step = largest / 127;
  const float inverse = inverse_of(step);
  for (int j = 0; j < 32; ++j) {
    // Ties away from 0. Adding a half before cutting off would round 0.49999997 up.
    const float number = std::abs(x[j] * inverse);
    const int whole = code(number, 127);
    const int magnitude = std::min(whole + (number - static_cast<float>(whole) >= 0.5f), 127);
    block.codes[j] = static_cast<int8_t>(x[j] < 0 ? -magnitude : magnitude);
  }
  block.scale.store(step);
}

}  // namespace

void quantize_blocks(BlockFormat format, const float* weights, int64_t count, uint8_t* blocks) {
  with_block(format, [&]<class Block, int size>() {
    auto* to = reinterpret_cast<Block*>(blocks);
    cpu::parallel_for(count, weights_of_a_piece / size, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) quantize(weights + i * size, to[i]);
    });
  });
}

}  // namespace mlx_runners
