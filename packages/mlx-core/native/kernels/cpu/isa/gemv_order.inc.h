// The order in which gemv.inc.h meets x. Part of isa/kernels.inc.h.
//
// x comes in the order of the bundles. Where blocks remain that fill no bundle, the last bundle
// overlaps the one before, with zeros for x where it has been met already.
#pragma once

#include "kernels/cpu/isa/bundles.inc.h"
#include "kernels/cpu/isa/weights.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

// Bytes of an exact x: sum of digit d * 256^-d, times a scale per 32.
constexpr int kDigits = 3;

template <class Row>
struct BundleShape : Bundle<Row> {
  using Base = Bundle<Row>;
  static constexpr int kWeights = Base::kBlocks * Row::kWeights;
  static constexpr int kGroups = Base::kBlocks * Row::kGroups;
  static constexpr int kParts = Base::kVectors / Base::kShared;  // vectors of scales
  static constexpr bool kOffsets = Base::kOffset == 0;
  static constexpr int kPadded = (kGroups + 3) / 4 * 4;

  /// Group of the 16 bytes `quad` of vector v.
  static constexpr int group(int v, int quad) {
    return Base::weight(v, 16 * (quad < kQuads ? quad : 0)) / Row::kGroup;
  }
  /// Where the numbers lie that the 16 bytes `quad` of vector v are multiplied by, once `arranged`.
  static constexpr int quad_at(int v, int quad) {
    return Base::kPairs ? v * kBytesWide + 16 * quad : Base::weight(v, 16 * quad);
  }
  static constexpr int whole_lines(int floats) { return (floats + kWidth - 1) / kWidth * kWidth; }
  // Floats that hold a number per group: as many, or all of a vector, once for each of four rows.
  static constexpr int kNumbers = Base::kTogether ? kWidth : kPadded;
  // Exact: where the CPU multiplies bytes, and the sums of a lane fit 32 bits, x comes as three of
  // them; else as floats.
  static constexpr int kExactDigits = kMultipliesBytes && Base::kBits <= 6 ? kDigits : 0;
  // Floats per bundle: x by vectors and bytes of a lane, then what the offsets are multiplied by:
  // sums over groups, or, times a constant offset, over the bytes of a lane.
  static constexpr int kFloatSums = Base::kVectors * kBytesWide;
  static constexpr int kFloats = kFloatSums + (kOffsets ? whole_lines(kNumbers) : kParts * kWidth);
  // Bytes per bundle, as floats: codes of x, its scales and sums over groups.
  static constexpr int byte_scales(int digits) { return digits * Base::kVectors * kWidth; }
  static constexpr int byte_sums(int digits) { return byte_scales(digits) + kNumbers; }
  static constexpr int byte_floats(int digits) {
    return whole_lines(byte_sums(digits) + (kOffsets ? kNumbers : 0));
  }

  static int64_t count(int64_t depth) { return (depth + kWeights - 1) / kWeights; }
  /// First block of the bundle that would start at block b.
  static int64_t start(int64_t b, int64_t blocks) {
    return b + Base::kBlocks <= blocks ? b : blocks - Base::kBlocks;
  }
};

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

/// Once more for each of the rows whose scales come together.
template <class Shape>
MLX_RUNNERS_INLINE void repeat_groups(float* numbers) {
  if constexpr (Shape::kTogether) {
    for (int i = Shape::kGroups; i < Shape::kNumbers; ++i) {
      numbers[i] = numbers[i - Shape::kGroups];
    }
  }
}

/// Bytes of the bundle whose first weights meet codes, scales and sums; the first `met` of those
/// are done.
template <class Row, int kCount>
MLX_RUNNERS_INLINE void order_bundle(const int8_t* const (&codes)[kCount], const float* scales,
                                     const float* sums, int64_t met, float* to) {
  using Shape = BundleShape<Row>;
#pragma GCC unroll 4
  for (int d = 0; d < kCount; ++d) {
    int8_t room[Shape::kWeights];
    const int8_t* from = arranged<Shape>(codes[d], met, room);
    for (int v = 0; v < Shape::kVectors; ++v) {
      for (int quad = 0; quad < kQuads; ++quad) {
        memcpy(to + (d * Shape::kVectors + v) * kWidth + quad * 4, from + Shape::quad_at(v, quad),
               16);
      }
    }
  }
  float* to_scales = to + Shape::byte_scales(kCount);
  float* to_sums = to + Shape::byte_sums(kCount);
  for (int g = 0; g < Shape::kPadded; ++g) {
    const bool present = g < Shape::kGroups && g * Row::kGroup >= met;
    to_scales[g] = present ? scales[g * Row::kGroup / kStep] : 0.0f;
    if constexpr (Shape::kOffsets) {
      to_sums[g] = present ? sums[g] : 0.0f;
    }
  }
  repeat_groups<Shape>(to_scales);
  if constexpr (Shape::kOffsets) {
    repeat_groups<Shape>(to_sums);
  }
}

/// 32 numbers as integers of up to 24 bits times a scale, and the integers as bytes, the highest
/// first. Returns their sum. Where x isn't finite, nor is the scale, and so the product.
MLX_RUNNERS_INLINE float split_digits(const float* x, int8_t* const (&digits)[kDigits],
                                      float& scale) {
  constexpr float kMost = 8355000.0f;  // some less than bytes of up to 127 give, for rounding
  F32 part[kVectors];
  F32 largest = zero();
  F32 poison = zero();
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    part[v] = load(x + v * kWidth);
    largest = max(max(part[v], zero() - part[v]), largest);
    poison = fma(part[v], zero(), poison);
  }
  const float magnitude = hmax(largest);
  // Of smaller ones the inverse overflows.
  constexpr float kLeast = 1e-31f;
  const float bound = magnitude > kLeast ? magnitude : kLeast;
  const F32 inverse = set1(kMost / bound);
  int32_t whole[kStep];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    store_rounded(whole + v * kWidth, part[v] * inverse);
  }
  uint32_t sum = 0;  // unsigned, since it may overflow where x isn't finite
  for (int i = 0; i < kStep; ++i) {
    const auto number = static_cast<uint32_t>(whole[i]);
    sum += number;
    // Bytes that count from -128 on.
    const uint32_t bytes = (number + 0x808080U) ^ 0x808080U;
    digits[0][i] = static_cast<int8_t>(bytes >> 16);
    digits[1][i] = static_cast<int8_t>(bytes >> 8);
    digits[2][i] = static_cast<int8_t>(bytes);
  }
  scale = bound / kMost + hsum(poison);
  return scale * static_cast<float>(static_cast<int32_t>(sum));
}

template <class Row>
void order_digits(const float* x, int64_t depth, float* to) {
  using Shape = BundleShape<Row>;
  for (int64_t k = 0; k < depth; k += Shape::kWeights, to += Shape::byte_floats(kDigits)) {
    const int64_t first = k + Shape::kWeights <= depth ? k : depth - Shape::kWeights;
    int8_t digits[kDigits][Shape::kWeights];
    float scales[Shape::kWeights / kStep];
    float sums[Shape::kWeights / kStep];
    static_assert(!Shape::kOffsets || Row::kGroup == kStep);
    for (int i = 0; i < Shape::kWeights / kStep; ++i) {
      int8_t* const at[] = {digits[0] + i * kStep, digits[1] + i * kStep, digits[2] + i * kStep};
      sums[i] = split_digits(x + first + i * kStep, at, scales[i]);
    }
    order_bundle<Row, kDigits>({digits[0], digits[1], digits[2]}, scales, sums, k - first, to);
  }
}

template <class Row>
void order_floats(const float* x, int64_t depth, float* to) {
  using Shape = BundleShape<Row>;
  constexpr float kFactors[4] = {1.0f, 0x1p-8f, 0x1p-16f, Shape::kBits == 8 ? 1.0f : 0x1p-24f};
  for (int64_t k = 0; k < depth; k += Shape::kWeights, to += Shape::kFloats) {
    const int64_t first = k + Shape::kWeights <= depth ? k : depth - Shape::kWeights;
    float room[Shape::kWeights];
    const float* from = arranged<Shape>(x + first, k - first, room);
    float* sums = to + Shape::kFloatSums;
    memset(sums, 0, (Shape::kFloats - Shape::kFloatSums) * sizeof(float));
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
      if constexpr (Shape::kOffsets) {
        float lanes[kWidth];
        store(lanes, sum);
        for (int lane = 0; lane < kWidth; ++lane) {
          sums[Shape::group(v, lane / 4)] += lanes[lane];
        }
      } else {
        float* part = sums + v / Shape::kShared * kWidth;
        store(part, fnma(sum, set1(Shape::kOffset), load(part)));
      }
    }
    if constexpr (Shape::kOffsets) {
      repeat_groups<Shape>(sums);
    }
  }
}

// ---- what the table has ----

template <class Row>
int64_t exact_floats(int64_t depth) {
  using Shape = BundleShape<Row>;
  constexpr int kPerBundle =
      Shape::kExactDigits > 0 ? Shape::byte_floats(Shape::kExactDigits) : Shape::kFloats;
  return depth < Shape::kWeights ? depth : Shape::count(depth) * kPerBundle;
}
template <class Row>
int64_t fast_floats(int64_t depth) {
  using Shape = BundleShape<Row>;
  return depth < Shape::kWeights ? depth : Shape::count(depth) * Shape::byte_floats(1);
}

template <class Row>
void order_exact(const float* x, int64_t depth, float* to) {
  if (depth < BundleShape<Row>::kWeights) {
    memcpy(to, x, static_cast<size_t>(depth) * sizeof(float));
  } else if constexpr (BundleShape<Row>::kExactDigits > 0) {
    order_digits<Row>(x, depth, to);
  } else {
    order_floats<Row>(x, depth, to);
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
  for (int64_t k = 0; k < depth; k += Shape::kWeights, to += Shape::byte_floats(1)) {
    const int64_t first = k + Shape::kWeights <= depth ? k : depth - Shape::kWeights;
    order_bundle<Row, 1>({x.codes + first}, x.scales + first / kStep, x.sums + first / Row::kGroup,
                         k - first, to);
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
