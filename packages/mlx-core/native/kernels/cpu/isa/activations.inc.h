// Activations of feed-forward layers and of capped scores. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/isa/elementwise.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

/// 1 / (1 + exp(-x)), within 3 ulp.
MLX_RUNNERS_INLINE F32 sigmoid(F32 x) {
  const F32 one = set1(1.0f);
  const F32 e = exp_nonpositive(min(zero() - x, x));
  const F32 s = one / (one + e);
  // NaN compares with nothing: e and so s are NaN as well.
  return select(gt(zero(), x), e * s, s);
}

/// tanh(x), within 3 ulp: an odd polynomial near 0 (Cephes' tanhf), 1 - 2 / (exp(2x) + 1)
/// elsewhere.
MLX_RUNNERS_INLINE F32 tanh_lanes(F32 x) {
  const F32 negative = zero() - x;
  const F32 size = max(negative, x);
  const F32 u = x * x;
  F32 p = set1(-5.70498872745e-3f);
  p = fma(p, u, set1(2.06390887954e-2f));
  p = fma(p, u, set1(-5.37397155531e-2f));
  p = fma(p, u, set1(1.33314422036e-1f));
  p = fma(p, u, set1(-3.33332819422e-1f));
  const F32 near = fma(p * u, x, x);
  const F32 one = set1(1.0f);
  const F32 e = exp_nonpositive(set1(-2.0f) * size);
  const F32 far = (one - e) / (one + e);
  return select(gt(set1(0.625f), size), near, select(gt(zero(), x), zero() - far, far));
}

/// x Phi(x) by tanh(sqrt(2 / pi) (x + 0.044715 x^3)) (Hendrycks and Gimpel, 2016); as
/// (1 + tanh z) / 2 is sigmoid(2z).
MLX_RUNNERS_INLINE F32 gelu_tanh_lanes(F32 x) {
  const F32 inner = fma(x * x, set1(0.044715f), set1(1.0f));
  return x * sigmoid(x * set1(1.5957691216f) * inner);
}

template <GluKind kKind>
MLX_RUNNERS_INLINE F32 glu_lanes(F32 gate, F32 up) {
  if constexpr (kKind == GluKind::kSwiglu) {
    return gate * sigmoid(gate) * up;
  } else if constexpr (kKind == GluKind::kGegluTanh) {
    return gelu_tanh_lanes(gate) * up;
  } else {
    return gelu_lanes(gate) * up;
  }
}

template <GluKind kKind>
void glu_of(const float* gate, const float* up, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    store(y + i, glu_lanes<kKind>(load(gate + i), load(up + i)));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(y + i, glu_lanes<kKind>(load_n(gate + i, rest), load_n(up + i, rest)), rest);
  }
}

void glu(GluKind kind, const float* gate, const float* up, float* y, int64_t n) {
  switch (kind) {
    case GluKind::kSwiglu:
      return glu_of<GluKind::kSwiglu>(gate, up, y, n);
    case GluKind::kGegluTanh:
      return glu_of<GluKind::kGegluTanh>(gate, up, y, n);
    case GluKind::kGegluErf:
      return glu_of<GluKind::kGegluErf>(gate, up, y, n);
  }
}

/// x = cap * tanh(x / cap).
void cap_row(float* x, int64_t n, float cap) {
  const F32 size = set1(cap);
  const F32 inverse = set1(1.0f / cap);
  for (int64_t i = 0; i < n; i += kWidth) {
    const int lanes = n - i < kWidth ? static_cast<int>(n - i) : kWidth;
    store_n(x + i, size * tanh_lanes(load_n(x + i, lanes) * inverse), lanes);
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
