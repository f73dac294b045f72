// Quantisation in two steps: each group of weights gets the scale (and minimum) that fits it best,
// then these are rounded to a few bits each, and the weights' codes follow from what is left.
//
// The best fit is searched for: a few scales around the one that just spans the group give codes;
// for given codes the best line through (code, weight) is a problem of least squares; of all, the
// one with the smallest error is taken. Large weights count more, since they matter more for the
// products that they are in: a weight x counts √mean(x²) + |x|. (The idea is that of ggml's
// quantisers.)
#include "quant/quantize_k.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mlx_runners {
namespace {

// Scales that are tried on either side, in tenths of a code.
constexpr int tries = 10;

float inverse_of(float scale) { return scale == 0 ? 0 : 1 / scale; }

// A whole number, ties to even, by float32's own rounding; NaN becomes the lowest. Of a number or
// of a vector.
template <class T>
T rounded(T number, T lowest, T highest) {
  const T last_place_is_one = lowest * 0 + 0x1.8p23f;
  number = number > lowest ? number : lowest;
  number = number < highest ? number : highest;
  return (number + last_place_is_one) - last_place_is_one;
}

using Lanes = float __attribute__((vector_size(16)));

// The numbers of a group.
template <int size>
struct Group {
  static constexpr int count = size / 4;
  Lanes lanes[count];

  template <class Term>
  static Group of(Term term) {
    Group group;
    for (int i = 0; i < count; ++i) group.lanes[i] = term(i);
    return group;
  }
  static Group at(const float* x) {
    Group group;
    std::memcpy(group.lanes, x, sizeof(group.lanes));
    return group;
  }
  Lanes operator[](int i) const { return lanes[i]; }
  float sum() const {
    Lanes all = lanes[0];
    for (int i = 1; i < count; ++i) all += lanes[i];
    return (all[0] + all[2]) + (all[1] + all[3]);
  }
};

template <int size>
Group<size> importance(const Group<size>& x) {
  const Lanes zero{};
  const float squares = Group<size>::of([&](int i) { return x[i] * x[i]; }).sum();
  const float typical = std::sqrt(squares / size);
  return Group<size>::of([&](int i) { return typical + (x[i] < zero ? -x[i] : x[i]); });
}

// x ≈ scale · code − min, with codes from 0 to `highest`, neither scale nor min below 0.
struct Line {
  float scale, min;
};

Line fit_line(const float* numbers, float highest) {
  using Numbers = Group<32>;
  const Lanes zero{};
  const float low = std::min(0.0f, *std::min_element(numbers, numbers + 32));
  const float span = *std::max_element(numbers, numbers + 32) - low;
  Line best{0, -low};
  if (!(span > 0)) return best;
  const Numbers x = Numbers::at(numbers);
  const Numbers weight = importance(x);
  const float all = weight.sum();
  const float total = Numbers::of([&](int i) { return weight[i] * x[i]; }).sum();
  float least = std::numeric_limits<float>::infinity();
  for (int i = -tries; i <= tries; ++i) {
    const float inverse = (highest + 0.1f * static_cast<float>(i)) / span;
    const Numbers code =
        Numbers::of([&](int j) { return rounded((x[j] - low) * inverse, zero, zero + highest); });
    const Numbers weighted = Numbers::of([&](int j) { return weight[j] * code[j]; });
    const float code_total = weighted.sum();
    const float squares = Numbers::of([&](int j) { return weighted[j] * code[j]; }).sum();
    const float products = Numbers::of([&](int j) { return weighted[j] * x[j]; }).sum();
    const float determinant = all * squares - code_total * code_total;
    Line line{(all * products - total * code_total) / determinant,
              (code_total * products - squares * total) / determinant};
    if (!(determinant > 0) || line.min < 0) line = {products * inverse_of(squares), 0};
    const auto weighted_square = [&](int j) {
      const Lanes distance = line.scale * code[j] - line.min - x[j];
      return weight[j] * distance * distance;
    };
    const float error = Numbers::of(weighted_square).sum();
    if (error < least && line.scale > 0) {
      least = error;
      best = line;
    }
  }
  return best;
}

// x ≈ scale · code, with codes from −32 to 31; the scale may be negative.
float fit_scale(const float* numbers) {
  using Numbers = Group<16>;
  constexpr float lowest = -32, highest = 31;
  const Lanes zero{};
  const float extreme = *std::max_element(
      numbers, numbers + 16, [](float a, float b) { return std::abs(a) < std::abs(b); });
  float best = 0, most = 0;
  if (extreme == 0) return best;
  const Numbers x = Numbers::at(numbers);
  const Numbers weight = importance(x);
  for (int i = -tries; i <= tries; ++i) {
    const float inverse = (lowest + 0.1f * static_cast<float>(i)) / extreme;
    const Numbers code =
        Numbers::of([&](int j) { return rounded(x[j] * inverse, zero + lowest, zero + highest); });
    const Numbers weighted = Numbers::of([&](int j) { return weight[j] * code[j]; });
    const float products = Numbers::of([&](int j) { return weighted[j] * x[j]; }).sum();
    const float squares = Numbers::of([&](int j) { return weighted[j] * code[j]; }).sum();
    // By how much the best scale for these codes, products / squares, lessens the error.
    const float gain = products * products * inverse_of(squares);
    if (gain > most) {
      most = gain;
      best = products / squares;
    }
  }
  return best;
}

template <int highest, class Block>
void quantize_groups(const float* x, Block& block, uint8_t (&codes)[256]) {
  constexpr float largest = 63;
  Line lines[8];
  Line most{0, 0};
  for (int g = 0; g < 8; ++g) {
    lines[g] = fit_line(x + 32 * g, highest);
    most = {std::max(most.scale, lines[g].scale), std::max(most.min, lines[g].min)};
  }
  const float scale = block.scale.store(most.scale / largest);
  const float min = block.min.store(most.min / largest);
  uint8_t scales[8], mins[8];
  for (int g = 0; g < 8; ++g) {
    scales[g] = static_cast<uint8_t>(rounded(lines[g].scale * inverse_of(scale), 0.0f, largest));
    mins[g] = static_cast<uint8_t>(rounded(lines[g].min * inverse_of(min), 0.0f, largest));
    const float inverse = inverse_of(scale * static_cast<float>(scales[g]));
    const float offset = min * static_cast<float>(mins[g]);
    for (int j = 32 * g; j < 32 * g + 32; ++j) {
      codes[j] = static_cast<uint8_t>(rounded((x[j] + offset) * inverse, 0.0f, float{highest}));
    }
  }
  block.groups.pack(scales, mins);
  for (int i = 0; i < 128; ++i) {
    const int j = i / 32 * 64 + i % 32;
    block.nibbles[i] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + 32] & 15) << 4);
  }
}

}  // namespace

void quantize(const float* x, BlockQ4_K& block) {
  uint8_t codes[256];
  quantize_groups<15>(x, block, codes);
}

void quantize(const float* x, BlockQ5_K& block) {
  uint8_t codes[256];
  quantize_groups<31>(x, block, codes);
  for (int j = 0; j < 32; ++j) {
    int bits = 0;
    for (int g = 0; g < 8; ++g) bits |= codes[32 * g + j] >> 4 << g;
    block.fifth_bits[j] = static_cast<uint8_t>(bits);
  }
}

void quantize(const float* x, BlockQ6_K& block) {
  float scales[16];
  float extreme = 0;
  for (int g = 0; g < 16; ++g) {
    scales[g] = fit_scale(x + 16 * g);
    if (std::abs(scales[g]) > std::abs(extreme)) extreme = scales[g];
  }
  const float scale = block.scale.store(extreme == 0 ? 0 : extreme / -128);  // not -0
  uint8_t codes[256];
  for (int g = 0; g < 16; ++g) {
    const float rounded_scale = rounded(scales[g] * inverse_of(scale), -128.0f, 127.0f);
    block.scales[g] = static_cast<int8_t>(rounded_scale);
    const float inverse = inverse_of(scale * static_cast<float>(block.scales[g]));
    for (int j = 16 * g; j < 16 * g + 16; ++j) {
      codes[j] = static_cast<uint8_t>(rounded(x[j] * inverse, -32.0f, 31.0f) + 32);
    }
  }
  for (int half = 0; half < 2; ++half) {
    const uint8_t* from = codes + 128 * half;
    for (int j = 0; j < 64; ++j) {
      block.nibbles[64 * half + j] =
          static_cast<uint8_t>((from[j] & 15) | (from[j + 64] & 15) << 4);
    }
    for (int j = 0; j < 32; ++j) {
      int bits = 0;
      for (int quarter = 0; quarter < 4; ++quarter) {
        bits |= from[32 * quarter + j] >> 4 << 2 * quarter;
      }
      block.upper_bits[32 * half + j] = static_cast<uint8_t>(bits);
    }
  }
}

}  // namespace mlx_runners
