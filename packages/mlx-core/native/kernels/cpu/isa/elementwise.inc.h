// Row-wise and elementwise kernels. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// exp(x) for x <= 0, within 1 ulp; 0 below the smallest normal result, NaN stays NaN.
/// x = n ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite), then a minimax polynomial for exp(r).
MLX_RUNNERS_INLINE F32 exp_nonpositive(F32 x) {
  const F32 lowest = set1(-87.33654f);
  const F32 magic = set1(MLX_RUNNERS_ROUND_MAGIC);
  const F32 clamped = max(lowest, x);
  const F32 t = fma(clamped, set1(1.44269504f), magic);
  const F32 n = t - magic;
  F32 r = fnma(n, set1(0.693359375f), clamped);
  r = fnma(n, set1(-2.12194440e-4f), r);
  F32 p = set1(0.0013814540579915047f);
  p = fma(p, r, set1(0.00836874544620514f));
  p = fma(p, r, set1(0.04166838899254799f));
  p = fma(p, r, set1(0.1666652113199234f));
  p = fma(p, r, set1(0.4999999403953552f));
  p = fma(p, r, set1(1.0f));
  p = fma(p, r, set1(1.0f));
  // `clamped - lowest` is 0 where x is too small and NaN where it is NaN.
  return select(gt(x, lowest), mul_pow2(p, t), clamped - lowest);
}

/// erf(x / sqrt 2), absolute error below 3.3e-7: x P(x^2) / Q(x^2), a minimax rational function on
/// |x| <= 5.6, where it reaches 1 in fp32.
MLX_RUNNERS_INLINE F32 erf_over_sqrt2(F32 x) {
  const F32 u = x * x;
  F32 p = set1(4.429060851407485e-08f);
  p = fma(p, u, set1(1.2713084288407117e-05f));
  p = fma(p, u, set1(0.00034770279307849705f));
  p = fma(p, u, set1(0.009414526633918285f));
  p = fma(p, u, set1(0.06875233352184296f));
  p = fma(p, u, set1(0.797884464263916f));
  F32 q = set1(1.180212507279066e-06f);
  q = fma(q, u, set1(7.510217255912721e-05f));
  q = fma(q, u, set1(0.0019129819538203835f));
  q = fma(q, u, set1(0.028940122574567795f));
  q = fma(q, u, set1(0.2528339922428131f));
  q = fma(q, u, set1(1.0f));
  const F32 e = x * p / q;
  const F32 limit = set1(5.6f);
  return select(gt(x, limit), set1(1.0f), select(gt(zero() - limit, x), set1(-1.0f), e));
}

MLX_RUNNERS_INLINE F32 gelu_lanes(F32 x) {
  const F32 half = x * set1(0.5f);
  return fma(half, erf_over_sqrt2(x), half);
}

void gelu(const float* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(y + i, gelu_lanes(load(x + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(y + i, gelu_lanes(load_n(x + i, rest)), rest);
  }
}

float row_max(const float* x, int64_t n) {
  const F32 lowest = set1(-__builtin_inff());
  F32 a = lowest;
  F32 b = lowest;
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    a = max(load(x + i), a);
    b = max(load(x + i + kWidth), b);
  }
  for (; i < n; i += kWidth) {
    const int64_t rest = n - i;
    a = max(rest >= kWidth ? load(x + i) : load_n(x + i, static_cast<int>(rest), -__builtin_inff()),
            a);
  }
  return hmax(max(a, b));
}

/// y = exp(x - shift), x <= shift; returns the sum.
float exp_row(const float* x, float* y, int64_t n, float shift) {
  const F32 offset = set1(shift);
  F32 a = zero();
  F32 b = zero();
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const F32 p = exp_nonpositive(load(x + i) - offset);
    const F32 q = exp_nonpositive(load(x + i + kWidth) - offset);
    store(y + i, p);
    store(y + i + kWidth, q);
    a = a + p;
    b = b + q;
  }
  for (; i < n; i += kWidth) {
    const int rest = n - i < kWidth ? static_cast<int>(n - i) : kWidth;
    const F32 p = exp_nonpositive(load_n(x + i, rest, -__builtin_inff()) - offset);
    store_n(y + i, p, rest);
    // Of a row of -inf only, the missing lanes are NaN like all others.
    a = a + p;
  }
  return hsum(a + b);
}

void scale_row(float* y, int64_t n, float factor) {
  const F32 f = set1(factor);
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(y + i, load(y + i) * f);
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(y + i, load_n(y + i, rest) * f, rest);
  }
}

void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float sum = exp_row(x, y, columns, row_max(x, columns));
    scale_row(y, columns, 1.0f / sum);
  }
}

void softmax_part(const float* x, float* y, int64_t n, float* max, float* sum) {
  *max = row_max(x, n);
  // A part of -inf only becomes zeros: the row's other parts may hold more.
  *sum = exp_row(x, y, n, *max == -__builtin_inff() ? 0.0f : *max);
}

float row_sum(const float* x, int64_t n) {
  F32 a = zero();
  F32 b = zero();
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    a = a + load(x + i);
    b = b + load(x + i + kWidth);
  }
  for (; i < n; i += kWidth) {
    a = a + load_n(x + i, n - i < kWidth ? static_cast<int>(n - i) : kWidth);
  }
  return hsum(a + b);
}

float row_square_deviation(const float* x, int64_t n, float mean) {
  const F32 center = set1(mean);
  F32 a = zero();
  F32 b = zero();
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const F32 d = load(x + i) - center;
    const F32 e = load(x + i + kWidth) - center;
    a = fma(d, d, a);
    b = fma(e, e, b);
  }
  for (; i < n; i += kWidth) {
    const F32 d = load_n(x + i, n - i < kWidth ? static_cast<int>(n - i) : kWidth, mean) - center;
    a = fma(d, d, a);
  }
  return hsum(a + b);
}

void layer_norm_rows(const float* x, const float* weight, const float* bias, float eps, float* y,
                     int64_t rows, int64_t columns) {
  const float count = static_cast<float>(columns);
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float mean = row_sum(x, columns) / count;
    const float variance = row_square_deviation(x, columns, mean) / count;
    const F32 center = set1(mean);
    const F32 scale = set1(1.0f / __builtin_sqrtf(variance + eps));
    for (int64_t i = 0; i < columns; i += kWidth) {
      const int n = columns - i < kWidth ? static_cast<int>(columns - i) : kWidth;
      F32 v = (load_n(x + i, n) - center) * scale;
      v = weight != nullptr ? v * load_n(weight + i, n) : v;
      v = bias != nullptr ? v + load_n(bias + i, n) : v;
      store_n(y + i, v, n);
    }
  }
}

/// y = x / sqrt(mean of x^2 + eps) * weight for one row.
void scale_to_unit(const float* x, float squares, const float* weight, float eps, float* y,
                   int64_t n) {
  const F32 scale = set1(1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + eps));
  for (int64_t i = 0; i < n; i += kWidth) {
    const int lanes = n - i < kWidth ? static_cast<int>(n - i) : kWidth;
    const F32 v = load_n(x + i, lanes) * scale;
    store_n(y + i, weight != nullptr ? v * load_n(weight + i, lanes) : v, lanes);
  }
}

void rms_norm_rows(const float* x, const float* weight, float eps, float* y, int64_t rows,
                   int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    scale_to_unit(x, row_square_deviation(x, columns, 0.0f), weight, eps, y, columns);
  }
}

/// sum = x + residual; returns the sum of its squares.
float add_row(const float* x, const float* residual, float* sum, int64_t n) {
  F32 a = zero();
  F32 b = zero();
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const F32 s = load(x + i) + load(residual + i);
    const F32 t = load(x + i + kWidth) + load(residual + i + kWidth);
    store(sum + i, s);
    store(sum + i + kWidth, t);
    a = fma(s, s, a);
    b = fma(t, t, b);
  }
  for (; i < n; i += kWidth) {
    const int lanes = n - i < kWidth ? static_cast<int>(n - i) : kWidth;
    const F32 s = load_n(x + i, lanes) + load_n(residual + i, lanes);
    store_n(sum + i, s, lanes);
    a = fma(s, s, a);
  }
  return hsum(a + b);
}

void add_rms_norm_rows(const float* x, const float* residual, const float* weight, float eps,
                       float* sum, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const float squares = add_row(x, residual, sum, columns);
    scale_to_unit(sum, squares, weight, eps, y, columns);
    x += columns;
    residual += columns;
    sum += columns;
    y += columns;
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
