// Products of one row x with weights where they lie. Part of isa/kernels.inc.h.
//
// - Floats: the bytes of a vector of codes become floats where they stand in their lanes, by a mask
//   and a conversion: byte p is worth 256^p times its code, and x comes divided by that.
// - Bytes: the codes are multiplied as they are, with one byte of x or, exactly, with three.
#pragma once

#include "kernels/cpu/isa/gemv_order.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// Sums of products of kCount numbers.
template <int kCount>
struct ProductSums {
  Four fours = {};
  float rest = 0.0f;

  inline MLX_RUNNERS_ALWAYS_INLINE void add(const float* a, const float* b) {
#pragma GCC unroll 4
    for (int i = 0; i + 4 <= kCount; i += 4) {
      fours += load_four(a + i) * load_four(b + i);
    }
#pragma GCC unroll 4
    for (int i = kCount / 4 * 4; i < kCount; ++i) {
      rest += a[i] * b[i];
    }
  }
  inline MLX_RUNNERS_ALWAYS_INLINE float sum() const {
    return ((fours[0] + fours[1]) + (fours[2] + fours[3])) + rest;
  }
};

/// How far ahead weights are fetched: a whole number of tiles of four rows, so in the same place of
/// other rows, and at least a page's length, where the hardware's own fetching stops.
MLX_RUNNERS_INLINE int64_t fetch_ahead(const WeightRows& w) {
  constexpr int64_t kLeast = 4096;
  const int64_t tile = 4 * w.row_bytes;
  return (kLeast + tile - 1) / tile * tile;
}
/// Into the second-level cache: the first is full of x, and waiting to fill it holds up loads.
template <class Row>
MLX_RUNNERS_INLINE void fetch_bundle(const uint8_t* at) {
  constexpr int kLine = 64;
#pragma GCC unroll 4
  for (int i = 0; i < Bundle<Row>::kBlocks * Row::kBytes; i += kLine) {
    __builtin_prefetch(at + i, 0, 2);
  }
}

/// What the bundles of kRows rows, of a tile of up to four, are multiplied by, and the sums of
/// their offsets' products.
template <class Row, int kRows, bool kTogether = Bundle<Row>::kTogether>
class Factors {
 public:
  using Shape = BundleShape<Row>;

  /// Of the bundles from block b on; x_sums are what their offsets are multiplied by.
  inline MLX_RUNNERS_ALWAYS_INLINE void read(const Row* rows, int64_t b, const float* x_sums) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float offset[Shape::kPadded];
      Shape::scales(rows[r], b, scales_[r], offset);
      if constexpr (Shape::kOffsets) {
        offsets_[r].add(offset, x_sums);
      }
    }
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void multiply(const float* x_scales) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int g = 0; g < Shape::kPadded; g += 4) {
        store_four(scales_[r] + g, load_four(scales_[r] + g) * load_four(x_scales + g));
      }
    }
  }
  /// The scales of vector v of row r, each in the lanes of its quads.
  template <int v, int r>
  inline MLX_RUNNERS_ALWAYS_INLINE F32 lanes() const {
    return spread_quads<Shape::group(v, 0), Shape::group(v, 1), Shape::group(v, 2),
                        Shape::group(v, 3)>(scales_[r]);
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void add_offsets(float* y) const {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      y[r] += offsets_[r].sum();
    }
  }

 private:
  float scales_[kRows][Shape::kPadded];
  ProductSums<Shape::kGroups> offsets_[kRows];
};

template <class Row, int kRows>
class Factors<Row, kRows, true> {
 public:
  using Shape = BundleShape<Row>;

  inline MLX_RUNNERS_ALWAYS_INLINE void read(const Row* rows, int64_t b, const float* x_sums) {
    const uint8_t* blocks[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      blocks[r] = rows[r < kRows ? r : 0].block(b);
    }
    F32 offset;
    Shape::scales_of_four(blocks, scales_, offset);
    offsets_ = fma(offset, load(x_sums), offsets_);
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void multiply(const float* x_scales) {
    scales_ = scales_ * load(x_scales);
  }
  template <int v, int r>
  inline MLX_RUNNERS_ALWAYS_INLINE F32 lanes() const {
    return spread_part<r>(scales_);
  }
  inline MLX_RUNNERS_ALWAYS_INLINE void add_offsets(float* y) const {
    float sums[4];
    store_part_sums(sums, offsets_);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      y[r] += sums[r];
    }
  }

 private:
  F32 scales_;
  F32 offsets_ = zero();
};

template <int kRows>
MLX_RUNNERS_INLINE void store_sums(const F32* sums, float* y) {
  if constexpr (kRows == 4) {
    store_hsum4(y, sums[0], sums[1], sums[2], sums[3]);
  } else {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      y[r] = hsum(sums[r]);
    }
  }
}

template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_floats_tile(const WeightRows& w, int64_t ahead, const float* x,
                                        int64_t n, float* y) {
  using Shape = BundleShape<Row>;
  Row rows[kRows];
  F32 sums[kRows];
  Factors<Row, kRows> factors;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r] = zero();
  }
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t next = 0; next < blocks; next += Shape::kBlocks, x += Shape::kFloats) {
    const int64_t b = Shape::start(next, blocks);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      fetch_bundle<Row>(rows[r].base + b * Row::kBytes + ahead);
    }
    factors.read(rows, b, x + Shape::kFloatSums);
    F32 part[kRows];
    for_each_step<Shape::kVectors>([&]<int v>(Index<v>) MLX_RUNNERS_ALWAYS_INLINE {
      Int codes[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        codes[r] = Shape::template codes<v>(rows[r], b);
        if constexpr (v % Shape::kShared == 0) {
          part[r] =
              Shape::kOffsets ? zero() : load(x + Shape::kFloatSums + v / Shape::kShared * kWidth);
        }
      }
      for_each_step<4>([&]<int p>(Index<p>) MLX_RUNNERS_ALWAYS_INLINE {
        const F32 left = load(x + v * kBytesWide + p * kWidth);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          part[r] = fma(byte_floats<p, Shape::kBits>(codes[r]), left, part[r]);
        }
      });
      if constexpr (v % Shape::kShared == Shape::kShared - 1) {
        for_each_step<kRows>([&]<int r>(Index<r>) MLX_RUNNERS_ALWAYS_INLINE {
          sums[r] = fma(part[r], factors.template lanes<v, r>(), sums[r]);
        });
      }
    });
  }
  store_sums<kRows>(sums, y + n);
  factors.add_offsets(y + n);
}

template <class Row, int kCount, int kRows>
MLX_RUNNERS_INLINE void dot_bytes_tile(const WeightRows& w, int64_t ahead, const float* x,
                                       int64_t n, float* y) {
  using Shape = BundleShape<Row>;
  Row rows[kRows];
  F32 sums[kRows];
  Factors<Row, kRows> factors;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r] = zero();
  }
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t next = 0; next < blocks; next += Shape::kBlocks, x += Shape::byte_floats(kCount)) {
    const int64_t b = Shape::start(next, blocks);
    Int left[kCount][Shape::kVectors];
    Int initial[Shape::kParts];  // sums of offset * x
#pragma GCC unroll 16
    for (int i = 0; i < Shape::kParts; ++i) {
      initial[i] = zero_int();
    }
#pragma GCC unroll 4
    for (int d = 0; d < kCount; ++d) {
#pragma GCC unroll 16
      for (int v = 0; v < Shape::kVectors; ++v) {
        left[d][v] = load_int(x + (d * Shape::kVectors + v) * kWidth);
        if constexpr (!Shape::kOffsets) {
          Int& sum = initial[v / Shape::kShared];
          if (d > 0 && v % Shape::kShared == 0) {
            sum = times_256(sum);
          }
          sum = dot4<Row::kNarrow>(sum, splat(Shape::kOffset), left[d][v]);
        }
      }
    }
    factors.read(rows, b, x + Shape::byte_sums(kCount));
    factors.multiply(x + Shape::byte_scales(kCount));
    for_each_step<kRows>([&]<int r>(Index<r>) MLX_RUNNERS_ALWAYS_INLINE {
      fetch_bundle<Row>(rows[r].base + b * Row::kBytes + ahead);
      for_each_step<Shape::kParts>([&]<int i>(Index<i>) MLX_RUNNERS_ALWAYS_INLINE {
        constexpr int kFirst = i * Shape::kShared;
        Int codes[Shape::kShared];
        for_each_step<Shape::kShared>([&]<int j>(Index<j>) MLX_RUNNERS_ALWAYS_INLINE {
          codes[j] = Shape::template codes<kFirst + j>(rows[r], b);
          if constexpr (Shape::kBits < 8) {
            codes[j] = codes[j] & splat((1 << Shape::kBits) - 1);
          }
        });
        Int part = kCount == 1 ? zero_int() - initial[i] : zero_int();
#pragma GCC unroll 4
        for (int d = 0; d < kCount; ++d) {
          if (d > 0) {
            part = times_256(part);
          }
#pragma GCC unroll 16
          for (int j = 0; j < Shape::kShared; ++j) {
            part = dot4<Row::kNarrow>(part, codes[j], left[d][kFirst + j]);
          }
        }
        if constexpr (kCount > 1 && !Shape::kOffsets) {
          part = part - initial[i];
        }
        sums[r] = fma(to_float(part), factors.template lanes<kFirst, r>(), sums[r]);
      });
    });
  }
  store_sums<kRows>(sums, y + n);
  factors.add_offsets(y + n);
}

/// Rows that fill no bundle.
template <class Row>
void dot_short(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  float row[BundleShape<Row>::kWeights];
  for (int64_t n = begin; n < end; ++n) {
    dequantize<Row>(w, n, 0, w.depth, row);
    F32 sum = zero();
    for (int64_t k = 0; k < w.depth; k += kWidth) {
      sum = fma(load(row + k), load(x + k), sum);
    }
    y[n] = hsum(sum);
  }
}

template <class Row>
void dot_exact(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  if (w.depth < BundleShape<Row>::kWeights) {
    return dot_short<Row>(w, x, begin, end, y);
  }
  const int64_t ahead = fetch_ahead(w);
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    if constexpr (BundleShape<Row>::kExactDigits > 0) {
      dot_bytes_tile<Row, kDigits, kRows>(w, ahead, x, n, y);
    } else {
      dot_floats_tile<Row, kRows>(w, ahead, x, n, y);
    }
  });
}
template <class Row>
void dot_fast(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  if (w.depth < BundleShape<Row>::kWeights) {
    return dot_short<Row>(w, x, begin, end, y);
  }
  const int64_t ahead = fetch_ahead(w);
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    dot_bytes_tile<Row, 1, kRows>(w, ahead, x, n, y);
  });
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
