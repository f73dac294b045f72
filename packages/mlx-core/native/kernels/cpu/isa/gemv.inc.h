// Products of one row x with weights where they lie. Part of isa/kernels.inc.h.
//
// - exact: the bytes of a vector of codes become floats where they stand in their lanes, by a mask
//   and a conversion: byte p is worth 256^p times its code, and x comes divided by that.
// - fast: the codes are multiplied as bytes.
//
// x comes in the order of the bundles. Where blocks remain that fill no bundle, the last bundle
// overlaps the one before, with zeros for x where it has been met already.
#pragma once

#include "kernels/cpu/isa/bundles.inc.h"
#include "kernels/cpu/isa/weights.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

template <class Row>
struct BundleShape : Bundle<Row> {
  using Base = Bundle<Row>;
  static constexpr int kWeights = Base::kBlocks * Row::kWeights;
  static constexpr int kGroups = Base::kBlocks * Row::kGroups;
  static constexpr int kParts = Base::kVectors / Base::kShared;  // vectors of scales
  static constexpr bool kOffsets = Base::kOffset == 0;
  static constexpr int kPadded = (kGroups + 3) / 4 * 4;  // floats that hold a number per group

  /// Group of the 16 bytes `quad` of vector v.
  static constexpr int group(int v, int quad) {
    return Base::weight(v, 16 * (quad < kQuads ? quad : 0)) / Row::kGroup;
  }
  /// Where the numbers lie that the 16 bytes `quad` of vector v are multiplied by, once `arranged`.
  static constexpr int quad_at(int v, int quad) {
    return Base::kPairs ? v * kBytesWide + 16 * quad : Base::weight(v, 16 * quad);
  }
  static constexpr int whole_lines(int floats) { return (floats + kWidth - 1) / kWidth * kWidth; }
  // Per bundle: x by vectors and bytes of a lane, then what the offsets are multiplied by: sums
  // over groups, or, times a constant offset, over the bytes of a lane.
  static constexpr int kExactSums = Base::kVectors * kBytesWide;
  static constexpr int kExactFloats =
      kExactSums + (kOffsets ? whole_lines(kPadded) : kParts * kWidth);
  // Per bundle: codes of x, its scales and sums over groups.
  static constexpr int kFastScales = Base::kVectors * kWidth;
  static constexpr int kFastSums = kFastScales + kPadded;
  static constexpr int kFastFloats = whole_lines(kFastSums + (kOffsets ? kPadded : 0));

  static int64_t count(int64_t depth) { return (depth + kWeights - 1) / kWeights; }
  /// First block of the bundle that would start at block b.
  static int64_t start(int64_t b, int64_t blocks) {
    return b + Base::kBlocks <= blocks ? b : blocks - Base::kBlocks;
  }
};

// ---- the order of x ----

template <class Row>
int64_t exact_floats(int64_t depth) {
  return BundleShape<Row>::count(depth) * BundleShape<Row>::kExactFloats;
}
template <class Row>
int64_t fast_floats(int64_t depth) {
  const int64_t floats = BundleShape<Row>::count(depth) * BundleShape<Row>::kFastFloats;
  return depth < BundleShape<Row>::kWeights ? depth : floats;
}

/// kWeights numbers from `from` on, zeros for the first `met`, and if codes come as pairs the even
/// ones before the odd ones: each 16 bytes of codes then meet consecutive numbers. In place, or in
/// `room`.
template <class Shape, class T>
MLX_RUNNERS_INLINE const T* arranged(const T* from, int64_t met, T* room) {
  constexpr int kStride = Shape::kPairs ? 2 : 1;
  constexpr int kPart = Shape::kWeights / kStride;
  if (met == 0 && kStride == 1) {
    return from;
  }
  for (int64_t part = 0; part < kStride; ++part) {
    for (int64_t i = 0; i < kPart; ++i) {
      room[part * kPart + i] = from[i * kStride + part];
    }
    for (int64_t i = 0; i < met / kStride; ++i) {
      room[part * kPart + i] = T{0};
    }
  }
  return room;
}

template <class Row>
void order_exact(const float* x, int64_t depth, float* to) {
  using Shape = BundleShape<Row>;
  constexpr float kFactors[4] = {1.0f, 0x1p-8f, 0x1p-16f, Shape::kBits == 8 ? 1.0f : 0x1p-24f};
  if (depth < Shape::kWeights) {
    memcpy(to, x, static_cast<size_t>(depth) * sizeof(float));
    return;
  }
  for (int64_t k = 0; k < depth; k += Shape::kWeights, to += Shape::kExactFloats) {
    const int64_t first = k + Shape::kWeights <= depth ? k : depth - Shape::kWeights;
    float room[Shape::kWeights];
    const float* from = arranged<Shape>(x + first, k - first, room);
    float* sums = to + Shape::kExactSums;
    memset(sums, 0, (Shape::kExactFloats - Shape::kExactSums) * sizeof(float));
    for (int v = 0; v < Shape::kVectors; ++v) {
      float* vector = to + v * kBytesWide;
      F32 sum = zero();
      for (int quad = 0; quad < kQuads; ++quad) {
        transpose4(from + Shape::quad_at(v, quad), 4, vector + quad * 4, kWidth);
      }
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const F32 values = load(vector + p * kWidth);
        sum = sum + values;
        store(vector + p * kWidth, values * set1(kFactors[p]));
      }
      float lanes[kWidth];
      store(lanes, sum);
      if constexpr (Shape::kOffsets) {
        for (int lane = 0; lane < kWidth; ++lane) {
          sums[Shape::group(v, lane / 4)] += lanes[lane];
        }
      } else {
        float* part = sums + v / Shape::kShared * kWidth;
        store(part, fnma(sum, set1(Shape::kOffset), load(part)));
      }
    }
  }
}

template <class Row>
void order_fast(const ByteRows& x, int64_t depth, float* to) {
  using Shape = BundleShape<Row>;
  if (depth < Shape::kWeights) {
    for (int64_t k = 0; k < depth; ++k) {
      to[k] = x.scales[k / kStep] * static_cast<float>(x.codes[k]);
    }
    return;
  }
  for (int64_t k = 0; k < depth; k += Shape::kWeights, to += Shape::kFastFloats) {
    const int64_t first = k + Shape::kWeights <= depth ? k : depth - Shape::kWeights;
    int8_t room[Shape::kWeights];
    const int8_t* from = arranged<Shape>(x.codes + first, k - first, room);
    for (int v = 0; v < Shape::kVectors; ++v) {
      for (int quad = 0; quad < kQuads; ++quad) {
        memcpy(to + v * kWidth + quad * 4, from + Shape::quad_at(v, quad), 16);
      }
    }
    for (int g = 0; g < Shape::kPadded; ++g) {
      const int64_t at = first + g * Row::kGroup;
      const bool present = g < Shape::kGroups && at >= k;
      to[Shape::kFastScales + g] = present ? x.scales[at / kStep] : 0.0f;
      if constexpr (Shape::kOffsets) {
        to[Shape::kFastSums + g] = present ? x.sums[at / Row::kGroup] : 0.0f;
      }
    }
  }
}

// ---- products ----

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

/// The scales of vector v, each in the lanes of its quads.
template <class Shape, int v>
MLX_RUNNERS_INLINE F32 lane_scales(const float* scale) {
  return spread_quads<Shape::group(v, 0), Shape::group(v, 1), Shape::group(v, 2),
                      Shape::group(v, 3)>(scale);
}

/// How far ahead weights are fetched: a whole number of tiles, so in the same place of other rows,
/// and at least a page's length, where the hardware's own fetching stops.
MLX_RUNNERS_INLINE int64_t fetch_ahead(const WeightRows& w, int rows) {
  constexpr int64_t kLeast = 4096;
  const int64_t tile = rows * w.row_bytes;
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

template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_exact_tile(const WeightRows& w, const float* x, int64_t n, float* y) {
  using Shape = BundleShape<Row>;
  Row rows[kRows];
  F32 sums[kRows];
  ProductSums<Shape::kGroups> offset_sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r] = zero();
  }
  const int64_t ahead = fetch_ahead(w, kRows);
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t next = 0; next < blocks; next += Shape::kBlocks, x += Shape::kExactFloats) {
    const int64_t b = Shape::start(next, blocks);
    float scale[kRows][Shape::kPadded];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      fetch_bundle<Row>(rows[r].base + b * Row::kBytes + ahead);
      float offset[Shape::kPadded];
      Shape::scales(rows[r], b, scale[r], offset);
      if constexpr (Shape::kOffsets) {
        offset_sums[r].add(offset, x + Shape::kExactSums);
      }
    }
    F32 part[kRows];
    for_each_step<Shape::kVectors>([&]<int v>(Index<v>) MLX_RUNNERS_ALWAYS_INLINE {
      Int codes[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        codes[r] = Shape::template codes<v>(rows[r], b);
        if constexpr (v % Shape::kShared == 0) {
          part[r] =
              Shape::kOffsets ? zero() : load(x + Shape::kExactSums + v / Shape::kShared * kWidth);
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
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          sums[r] = fma(part[r], lane_scales<Shape, v>(scale[r]), sums[r]);
        }
      }
    });
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r]) + offset_sums[r].sum();
  }
}

template <class Row, int kRows>
MLX_RUNNERS_INLINE void dot_fast_tile(const WeightRows& w, const float* x, int64_t n, float* y) {
  using Shape = BundleShape<Row>;
  Row rows[kRows];
  F32 sums[kRows];
  ProductSums<Shape::kGroups> offset_sums[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    rows[r] = Row::at(w, n + r);
    sums[r] = zero();
  }
  const int64_t ahead = fetch_ahead(w, kRows);
  const int64_t blocks = w.depth / Row::kWeights;
  for (int64_t next = 0; next < blocks; next += Shape::kBlocks, x += Shape::kFastFloats) {
    const int64_t b = Shape::start(next, blocks);
    Int left[Shape::kVectors];
    Int initial[Shape::kParts];  // sums of -offset * x
#pragma GCC unroll 16
    for (int i = 0; i < Shape::kParts; ++i) {
      initial[i] = zero_int();
    }
#pragma GCC unroll 16
    for (int v = 0; v < Shape::kVectors; ++v) {
      left[v] = load_int(x + v * kWidth);
      if constexpr (!Shape::kOffsets) {
        Int& sum = initial[v / Shape::kShared];
        sum = dot4<Row::kNarrow>(sum, splat(Shape::kOffset), left[v]);
      }
    }
    if constexpr (!Shape::kOffsets) {
#pragma GCC unroll 16
      for (int i = 0; i < Shape::kParts; ++i) {
        initial[i] = zero_int() - initial[i];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      fetch_bundle<Row>(rows[r].base + b * Row::kBytes + ahead);
      float scale[Shape::kPadded];
      float offset[Shape::kPadded];
      Shape::scales(rows[r], b, scale, offset);
      if constexpr (Shape::kOffsets) {
        offset_sums[r].add(offset, x + Shape::kFastSums);
      }
#pragma GCC unroll 16
      for (int g = 0; g < Shape::kPadded; g += 4) {
        store_four(scale + g, load_four(scale + g) * load_four(x + Shape::kFastScales + g));
      }
      Int part;
      for_each_step<Shape::kVectors>([&]<int v>(Index<v>) MLX_RUNNERS_ALWAYS_INLINE {
        if constexpr (v % Shape::kShared == 0) {
          part = initial[v / Shape::kShared];
        }
        Int codes = Shape::template codes<v>(rows[r], b);
        if constexpr (Shape::kBits < 8) {
          codes = codes & splat((1 << Shape::kBits) - 1);
        }
        part = dot4<Row::kNarrow>(part, codes, left[v]);
        if constexpr (v % Shape::kShared == Shape::kShared - 1) {
          sums[r] = fma(to_float(part), lane_scales<Shape, v>(scale), sums[r]);
        }
      });
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    y[n + r] = hsum(sums[r]) + offset_sums[r].sum();
  }
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
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    dot_exact_tile<Row, kRows>(w, x, n, y);
  });
}
template <class Row>
void dot_fast(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y) {
  if (w.depth < BundleShape<Row>::kWeights) {
    return dot_short<Row>(w, x, begin, end, y);
  }
  for_row_tiles(begin, end, [&]<int kRows>(Index<kRows>, int64_t n) MLX_RUNNERS_ALWAYS_INLINE {
    dot_fast_tile<Row, kRows>(w, x, n, y);
  });
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
