// Kernels over rows of weights in any format: to float32, to bytes, and products of one row x.
// Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/weight_formats.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

// Rows of weights that a product of one row handles side by side, to hide latency.
constexpr int kDotRowsAtOnce = 4;

/// Calls fn(Index<j>()) for j < kCount, with the code unrolled.
template <int j>
struct Index {};
template <int kCount, int j = 0, class Fn>
MLX_RUNNERS_INLINE void for_each_step(const Fn& fn) {
  if constexpr (j < kCount) {
    fn(Index<j>());
    for_each_step<kCount, j + 1>(fn);
  }
}

/// Fetches block b of the row `rows` further on, so that memory stays busy during the arithmetic.
template <class Row>
MLX_RUNNERS_INLINE void prefetch_below(const Row& row, const WeightRows& w, int rows, int64_t b) {
  constexpr int kLineBytes = 64;
  const uint8_t* at = row.base + rows * w.row_bytes + b * Row::kBytes;
#pragma GCC unroll 4
  for (int i = 0; i < Row::kBytes; i += kLineBytes) {
    __builtin_prefetch(at + i);
  }
}

template <class Row>
void dequantize(const WeightRows& w, int64_t row, int64_t k0, int64_t depth, float* out) {
  const Row source = Row::at(w, row);
  const int64_t end = (k0 + depth) / Row::kWeights;
  for (int64_t b = k0 / Row::kWeights; b < end; ++b, out += Row::kWeights) {
    float scale[Row::kGroups];
    float offset[Row::kGroups];
    source.scales(b, scale, offset);
    for_each_step<Row::kWeights / kStep>([&]<int j>(Index<j>) MLX_RUNNERS_ALWAYS_INLINE {
      F32 part[kVectors];
      source.template weights<j>(b, scale, offset, part);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        store(out + j * kStep + v * kWidth, part[v]);
      }
    });
  }
}

template <class Row>
void unpack(const WeightRows& w, int64_t row, int64_t k0, int64_t depth, uint8_t* codes,
            float* scales, float* offsets) {
  const Row source = Row::at(w, row);
  const int64_t end = (k0 + depth) / Row::kWeights;
  for (int64_t b = k0 / Row::kWeights; b < end; ++b) {
    source.scales(b, scales, offsets);
    for_each_step<Row::kWeights / kStep>([&]<int j>(Index<j>) MLX_RUNNERS_ALWAYS_INLINE {
      const Bytes unpacked = source.template codes<j>(b);
      memcpy(codes + j * kStep, &unpacked, kStep);
    });
    codes += Row::kWeights;
    scales += Row::kGroups;
    offsets += Row::kGroups;
  }
}

// ---- products of one row ----

template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_exact_tile(const WeightRows& w, const float* x, int64_t n, float* y) {
  Row rows[kRows];
  F32 sums[kRows][2];  // two each, for shorter chains of additions
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r][0] = zero();
    sums[r][1] = zero();
  }
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t b = 0; b < blocks; ++b, x += Row::kWeights) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      prefetch_below(rows[r], w, kRows, b);
      float scale[Row::kGroups];
      float offset[Row::kGroups];
      rows[r].scales(b, scale, offset);
      for_each_step<Row::kWeights / kStep>([&]<int j>(Index<j>) MLX_RUNNERS_ALWAYS_INLINE {
        F32 part[kVectors];
        rows[r].template weights<j>(b, scale, offset, part);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v % 2] = fma(part[v], load(x + j * kStep + v * kWidth), sums[r][v % 2]);
        }
      });
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r][0] + sums[r][1]);
  }
}

template <class Row>
void dot_exact(const WeightRows& w, const ExactRow& x, int64_t begin, int64_t end, float* y) {
  int64_t n = begin;
  for (; n + kDotRowsAtOnce <= end; n += kDotRowsAtOnce) {
    dot_exact_tile<Row, kDotRowsAtOnce>(w, x.x, n, y);
  }
  for (; n < end; ++n) {
    dot_exact_tile<Row, 1>(w, x.x, n, y);
  }
}

/// sum + the products of kCount numbers.
template <int kCount>
MLX_RUNNERS_INLINE void add_products(const float* a, const float* b, Lanes& sums, float& sum) {
  if constexpr (kCount % kLanes == 0) {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; i += kLanes) {
      sums = fma(load_lanes(a + i), load_lanes(b + i), sums);
    }
  } else {
    for (int i = 0; i < kCount; ++i) {
      sum += a[i] * b[i];
    }
  }
}

template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_fast_tile(const WeightRows& w, const ByteRows& x, int64_t n, float* y) {
  constexpr int kGroupsPerStep = kStep / Row::kGroup;
  Row rows[kRows];
  Lanes sums[kRows];
  Lanes offset_sums[kRows];
  float offset_sum[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r] = zero_lanes();
    offset_sums[r] = zero_lanes();
    offset_sum[r] = 0.0f;
  }
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t b = 0; b < blocks; ++b) {
    const float* x_scales = x.scales + b * (Row::kWeights / kStep);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      prefetch_below(rows[r], w, kRows, b);
      float scale[Row::kGroups];
      float offset[Row::kGroups];
      rows[r].scales(b, scale, offset);
      add_products<Row::kGroups>(offset, x.sums + b * Row::kGroups, offset_sums[r], offset_sum[r]);
#pragma GCC unroll 16
      for (int g = 0; g < Row::kGroups; ++g) {
        scale[g] *= x_scales[g / kGroupsPerStep];
      }
      for_each_step<Row::kWeights / kStep>([&]<int j>(Index<j>) MLX_RUNNERS_ALWAYS_INLINE {
        const Bytes codes = rows[r].template codes<j>(b);
        const Bytes right = load_bytes(x.codes + b * Row::kWeights + j * kStep);
        if constexpr (kGroupsPerStep == 2) {
          sums[r] = add_dot_halves<Row::kNarrow>(sums[r], codes, right, scale + 2 * j);
        } else {
          sums[r] = add_dot<Row::kNarrow>(sums[r], codes, right, scale[j]);
        }
      });
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r] + offset_sums[r]) + offset_sum[r];
  }
}

template <class Row>
void dot_fast(const WeightRows& w, const ByteRows& x, int64_t begin, int64_t end, float* y) {
  int64_t n = begin;
  for (; n + kDotRowsAtOnce <= end; n += kDotRowsAtOnce) {
    dot_fast_tile<Row, kDotRowsAtOnce>(w, x, n, y);
  }
  for (; n < end; ++n) {
    dot_fast_tile<Row, 1>(w, x, n, y);
  }
}

// ---- formats without codes ----

struct Floats {
  static constexpr int kBytes = 4;
  MLX_RUNNERS_INLINE F32 read(const uint8_t* p) {
    float lanes[kWidth];
    memcpy(lanes, p, sizeof(lanes));
    return load(lanes);
  }
};
struct Halves {
  static constexpr int kBytes = 2;
  MLX_RUNNERS_INLINE F32 read(const uint8_t* p) { return load_halves(p); }
};
struct Bfloats {
  static constexpr int kBytes = 2;
  MLX_RUNNERS_INLINE F32 read(const uint8_t* p) { return load_bfloats(p); }
};

/// The first n < kWidth.
template <class Type>
MLX_RUNNERS_INLINE F32 read_n(const uint8_t* p, int64_t n) {
  uint8_t bytes[kWidth * Type::kBytes] = {};
  memcpy(bytes, p, static_cast<size_t>(n * Type::kBytes));
  return Type::read(bytes);
}

template <class Type>
void dequantize_dense(const WeightRows& w, int64_t row, int64_t k0, int64_t depth, float* out) {
  const uint8_t* from = w.codes + row * w.row_bytes + k0 * Type::kBytes;
  int64_t k = 0;
  for (; k + kWidth <= depth; k += kWidth) {
    store(out + k, Type::read(from + k * Type::kBytes));
  }
  if (k < depth) {
    store_n(out + k, read_n<Type>(from + k * Type::kBytes, depth - k), static_cast<int>(depth - k));
  }
}

template <class Type, int kRows>
MLX_RUNNERS_INLINE void dot_dense_tile(const WeightRows& w, const float* x, int64_t n, float* y) {
  const uint8_t* from = w.codes + n * w.row_bytes;
  F32 sums[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    sums[r][0] = zero();
    sums[r][1] = zero();
  }
  int64_t k = 0;
  for (; k + 2 * kWidth <= w.depth; k += 2 * kWidth) {
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      const F32 left = load(x + k + u * kWidth);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const uint8_t* at = from + r * w.row_bytes + (k + u * kWidth) * Type::kBytes;
        sums[r][u] = fma(left, Type::read(at), sums[r][u]);
      }
    }
  }
  for (; k < w.depth; k += kWidth) {
    const int64_t rest = w.depth - k < kWidth ? w.depth - k : kWidth;
    const F32 left = load_n(x + k, static_cast<int>(rest));
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const uint8_t* at = from + r * w.row_bytes + k * Type::kBytes;
      sums[r][0] = fma(left, read_n<Type>(at, rest), sums[r][0]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r][0] + sums[r][1]);
  }
}

template <class Type>
void dot_dense(const WeightRows& w, const ExactRow& x, int64_t begin, int64_t end, float* y) {
  int64_t n = begin;
  for (; n + kDotRowsAtOnce <= end; n += kDotRowsAtOnce) {
    dot_dense_tile<Type, kDotRowsAtOnce>(w, x.x, n, y);
  }
  for (; n < end; ++n) {
    dot_dense_tile<Type, 1>(w, x.x, n, y);
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
