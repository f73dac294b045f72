// Kernels over rows of weights in any format: to float32, to bytes; and products of one row x with
// formats without codes. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/weight_formats.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

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

/// Calls fn(Index<rows>(), n) for all n from begin to end: four rows of weights at a time, which
/// share the loads of x and hide each other's latency, then single ones.
template <class Fn>
MLX_RUNNERS_INLINE void for_row_tiles(int64_t begin, int64_t end, const Fn& fn) {
  constexpr int kRows = 4;
  int64_t n = begin;
  for (; n + kRows <= end; n += kRows) {
    fn(Index<kRows>(), n);
  }
  for (; n < end; ++n) {
    fn(Index<1>(), n);
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

// ---- formats without codes ----

struct Floats {
  static constexpr int kBytes = 4;
  MLX_RUNNERS_INLINE F32 read(const uint8_t* p) {
    F32 floats;
    memcpy(&floats, p, sizeof(floats));
    return floats;
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
void dot_dense(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    dot_dense_tile<Type, kRows>(w, x, n, y);
  });
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
