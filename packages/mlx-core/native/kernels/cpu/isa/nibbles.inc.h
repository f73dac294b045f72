// Products of one row with weights of 4 bits, in float32, where they lie: a vector of packed bytes
// gives eight vectors of nibbles by masks alone, each worth 16^p times its code, and x comes in the
// order in which they appear, divided by the 16^p. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/weights.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

constexpr int kQuads = kWidth / 4;  // times 16 bytes in a vector
constexpr int kNibbles = 8;         // of a lane

/// Which weight nibble `high` of byte `byte` of the quad-th 16 bytes is.
template <Nibbles16 kOrder>
MLX_RUNNERS_INLINE int64_t weight_of_nibble(int64_t quad, int byte, int high) {
  if constexpr (kOrder == Nibbles16::kHalves) {
    return quad * 32 + high * 16 + byte;
  } else if constexpr (kOrder == Nibbles16::kPairs) {
    return quad * 32 + byte * 2 + high;
  } else {
    return quad / 2 * 64 + high * 32 + quad % 2 * 16 + byte;
  }
}

template <Nibbles16 kOrder>
void order_nibbles(const float* x, int64_t depth, float* ordered, float* sums) {
  // The uppermost nibble can be shifted down at the price of its mask, which keeps it positive.
  constexpr float kFactors[kNibbles] = {1.0f,     0x1p-4f,  0x1p-8f,  0x1p-12f,
                                        0x1p-16f, 0x1p-20f, 0x1p-24f, 1.0f};
  const int64_t quads = depth / 32 / kQuads * kQuads;
  for (int64_t quad = 0; quad < quads; ++quad) {
    float* to = ordered + quad / kQuads * kNibbles * kWidth + quad % kQuads * 4;
    for (int p = 0; p < kNibbles; ++p) {
      for (int lane = 0; lane < 4; ++lane) {
        const int64_t k = weight_of_nibble<kOrder>(quad, lane * 4 + p / 2, p % 2);
        to[p * kWidth + lane] = x[k] * kFactors[p];
      }
    }
  }
  for (int64_t g = 0; g < depth / 32; ++g) {
    F32 sum = zero();
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sum = sum + load(x + g * 32 + v * kWidth);
    }
    sums[g] = hsum(sum);
  }
}

/// The sums of x times code over the even and the odd nibbles of a vector.
MLX_RUNNERS_INLINE void nibble_products(Int packed, const float* x, F32& even, F32& odd) {
  even = nibble_floats<0>(packed) * load(x);
  odd = nibble_floats<1>(packed) * load(x + kWidth);
  even = fma(nibble_floats<2>(packed), load(x + 2 * kWidth), even);
  odd = fma(nibble_floats<3>(packed), load(x + 3 * kWidth), odd);
  even = fma(nibble_floats<4>(packed), load(x + 4 * kWidth), even);
  odd = fma(nibble_floats<5>(packed), load(x + 5 * kWidth), odd);
  even = fma(nibble_floats<6>(packed), load(x + 6 * kWidth), even);
  odd = fma(nibble_floats<7>(packed), load(x + 7 * kWidth), odd);
}

/// One row of weights: rows side by side are no faster here, there being eight products to
/// interleave.
template <class Row>
MLX_RUNNERS_INLINE float dot_nibbles_row(const WeightRows& w, const ExactRow& x, int64_t n) {
  constexpr bool kGrouped = Row::kNibbles == Nibbles16::kGroups;
  constexpr int kBlocks = kGrouped ? 1 : kQuads;                     // of an iteration
  constexpr int kSets = kGrouped ? Row::kWeights / 32 / kQuads : 1;  // vectors of an iteration
  constexpr int kGroups = kBlocks * Row::kGroups;
  const Row row = Row::at(w, n);
  F32 sum = zero();
  Lanes offset_sums = zero_lanes();
  float offset_sum = 0.0f;
  const int64_t blocks = w.depth / Row::kWeights;
  const int64_t whole = blocks / kBlocks * kBlocks;
  for (int64_t b = 0; b < whole; b += kBlocks) {
    const float* ordered = x.ordered + b * Row::kWeights;
    const float* group_sums = x.sums + b * Row::kGroups;
    float scale[kGroups];
    float offset[kGroups];
#pragma GCC unroll 4
    for (int i = 0; i < kBlocks; ++i) {
      prefetch_below(row, w, 1, b + i);
      row.scales(b + i, scale + i * Row::kGroups, offset + i * Row::kGroups);
    }
    F32 even;
    F32 odd;
    if constexpr (kGrouped) {
      add_products<kGroups>(offset, group_sums, offset_sums, offset_sum);
#pragma GCC unroll 8
      for (int s = 0; s < kSets; ++s) {
        nibble_products(load_quads(row.nibbles_at(b) + s * kQuads * 16, 16),
                        ordered + s * kNibbles * kWidth, even, odd);
        float low[kQuads];
        float high[kQuads];
#pragma GCC unroll 4
        for (int q = 0; q < kQuads; ++q) {
          low[q] = scale[(s * kQuads + q) / 2 * 2];
          high[q] = scale[(s * kQuads + q) / 2 * 2 + 1];
        }
        sum = fma(even, spread_quads(low), sum);
        sum = fma(odd, spread_quads(high), sum);
      }
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < kBlocks; ++i) {
        offset_sum += offset[i] * group_sums[i];
      }
      nibble_products(load_quads(row.nibbles_at(b), Row::kBytes), ordered, even, odd);
      sum = fma(even + odd, spread_quads(scale), sum);
    }
  }
  // Blocks that fill no vector.
  for (int64_t b = whole; b < blocks; ++b) {
    float scale[Row::kGroups];
    float offset[Row::kGroups];
    row.scales(b, scale, offset);
    F32 part[kVectors];
    row.template weights<0>(b, scale, offset, part);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sum = fma(part[v], load(x.x + b * Row::kWeights + v * kWidth), sum);
    }
  }
  return hsum(sum) + (hsum(offset_sums) + offset_sum);
}

template <class Row>
void dot_nibbles(const WeightRows& w, const ExactRow& x, int64_t begin, int64_t end, float* y) {
  for (int64_t n = begin; n < end; ++n) {
    y[n] = dot_nibbles_row<Row>(w, x, n);
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
