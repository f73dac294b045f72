// Matrix products of bytes: activations rounded to 8 bits times codes of weights. Part of
// isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/matmul.inc.h"
#include "kernels/cpu/isa/weights.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// One row: codes, and per 32 of them a scale, largest magnitude / 127. Where x isn't finite, nor
/// is the scale, and so the product.
void quantize_row(const float* x, int64_t depth, int8_t* codes, float* scales) {
  for (int64_t k = 0; k < depth; k += kStep) {
    F32 part[kVectors];
    F32 largest = zero();
    F32 poison = zero();
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      part[v] = load(x + k + v * kWidth);
      largest = max(max(part[v], zero() - part[v]), largest);
      poison = fma(part[v], zero(), poison);
    }
    const float magnitude = hmax(largest);
    const float inverse = magnitude > 0.0f ? 127.0f / magnitude : 0.0f;
    // The inverse of a subnormal magnitude overflows; such groups count as zero.
    const bool flat = !(inverse < 3e38f);
    round_to_bytes(part, set1(flat ? 0.0f : inverse), codes + k);
    scales[k / kStep] = (flat ? 0.0f : magnitude / 127.0f) + hsum(poison);
  }
}

void quantize_rows(const float* x, int64_t x_step, int64_t rows, int64_t depth, int group,
                   const ByteRows& to) {
  for (int64_t r = 0; r < rows; ++r) {
    int8_t* codes = to.codes + r * to.code_step;
    float* scales = to.scales + r * to.scale_step;
    float* sums = to.sums + r * to.sum_step;
    quantize_row(x + r * x_step, depth, codes, scales);
    for (int64_t k = 0; k < depth; k += group) {
      int32_t sum = 0;
      for (int i = 0; i < group; ++i) {
        sum += codes[k + i];
      }
      sums[k / group] = scales[k / kStep] * static_cast<float>(sum);
    }
  }
}

// Rows of the register tile: integer and float sums of kNv vectors for each.
constexpr int kByteRows = kRegisters == 32 ? (kNv == 2 ? 6 : 3) : 3;

/// c[kRows][kNr] = rows of x times one panel.
template <int kRows, int kGroup, bool kNarrow>
void bytes_tile(const ByteRows& x, int64_t row, int64_t depth, const uint8_t* codes,
                const float* scales, const float* offsets, float* c, int64_t c_step) {
  const int8_t* left = x.codes + row * x.code_step;
  const float* left_scales = x.scales + row * x.scale_step;
  const float* left_sums = x.sums + row * x.sum_step;
  F32 sums[kRows][kNv];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      sums[r][v] = zero();
    }
  }
  for (int64_t g = 0; g < depth / kGroup; ++g) {
    Int dots[kRows][kNv];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNv; ++v) {
        dots[r][v] = zero_int();
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < kGroup / 4; ++q) {
      Int right[kNv];
#pragma GCC unroll 4
      for (int v = 0; v < kNv; ++v) {
        right[v] = load_int(codes + (q * kNr + v * kWidth) * 4);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Int four = set1_int(left + r * x.code_step + q * 4);
#pragma GCC unroll 4
        for (int v = 0; v < kNv; ++v) {
          dots[r][v] = dot4<kNarrow>(dots[r][v], right[v], four);
        }
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      const F32 scale = load(scales + v * kWidth);
      const F32 offset = load(offsets + v * kWidth);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F32 left_scale = set1(left_scales[r * x.scale_step + g / (kStep / kGroup)]);
        const F32 left_sum = set1(left_sums[r * x.sum_step + g]);
        sums[r][v] = fma(to_float(dots[r][v]) * scale, left_scale, sums[r][v]);
        sums[r][v] = fma(offset, left_sum, sums[r][v]);
      }
    }
    left += kGroup;
    codes += kGroup * kNr;
    scales += kNr;
    offsets += kNr;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      store(c + r * c_step + v * kWidth, sums[r][v]);
    }
  }
}

template <int kRows, int kGroup, bool kNarrow>
void bytes_rows(const ByteRows& x, int64_t row, int64_t column, const BytePanels& w) {
  const int64_t present = min64(kNr, w.columns - column);
  const int64_t groups = w.depth / kGroup;
  float* out = w.out + row * w.out_step + column;
  float whole[kRows * kNr];
  const bool part = present < kNr;
  bytes_tile<kRows, kGroup, kNarrow>(x, row, w.depth, w.codes + column * w.depth,
                                     w.scales + column * groups, w.offsets + column * groups,
                                     part ? whole : out, part ? kNr : w.out_step);
  for (int64_t r = 0; part && r < kRows; ++r) {
    memcpy(out + r * w.out_step, whole + r * kNr, static_cast<size_t>(present) * sizeof(float));
  }
}

template <int kGroup, bool kNarrow>
void multiply_bytes(const ByteRows& x, int64_t begin, int64_t end, const BytePanels& w) {
  int64_t row = begin;
  // Panels inside: the rows of x stay in the first-level cache.
  for (; row + kByteRows <= end; row += kByteRows) {
    for (int64_t column = 0; column < w.columns; column += kNr) {
      bytes_rows<kByteRows, kGroup, kNarrow>(x, row, column, w);
    }
  }
  for (; row < end; ++row) {
    for (int64_t column = 0; column < w.columns; column += kNr) {
      bytes_rows<1, kGroup, kNarrow>(x, row, column, w);
    }
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
