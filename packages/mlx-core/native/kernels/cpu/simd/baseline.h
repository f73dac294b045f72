// Any CPU that GCC or clang compiles for: 128-bit vectors in the compilers' own notation.
// Included by simd.h only.
#pragma once

namespace mlx_runners::cpu::baseline {

constexpr int kWidth = 4;
constexpr int kMr = 4;
constexpr int kNv = 2;
constexpr int kRegisters = 16;

typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

struct F32 {
  Float4 v;
};
struct Mask {
  Int4 v;
};

MLX_RUNNERS_INLINE F32 set1(float x) { return {Float4{x, x, x, x}}; }
MLX_RUNNERS_INLINE F32 zero() { return set1(0.0f); }
MLX_RUNNERS_INLINE F32 load(const float* p) {
  F32 a;
  memcpy(&a.v, p, sizeof(a.v));
  return a;
}
MLX_RUNNERS_INLINE void store(float* p, F32 a) { memcpy(p, &a.v, sizeof(a.v)); }
MLX_RUNNERS_INLINE F32 load_n(const float* p, int n, float fill = 0.0f) {
  float lanes[4] = {fill, fill, fill, fill};
  memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
  return load(lanes);
}
MLX_RUNNERS_INLINE void store_n(float* p, F32 a, int n) {
  memcpy(p, &a.v, static_cast<size_t>(n) * sizeof(float));
}

MLX_RUNNERS_INLINE F32 operator+(F32 a, F32 b) { return {a.v + b.v}; }
MLX_RUNNERS_INLINE F32 operator-(F32 a, F32 b) { return {a.v - b.v}; }
MLX_RUNNERS_INLINE F32 operator*(F32 a, F32 b) { return {a.v * b.v}; }
MLX_RUNNERS_INLINE F32 operator/(F32 a, F32 b) { return {a.v / b.v}; }
MLX_RUNNERS_INLINE F32 fma(F32 a, F32 b, F32 c) { return {a.v * b.v + c.v}; }
MLX_RUNNERS_INLINE F32 fnma(F32 a, F32 b, F32 c) { return {c.v - a.v * b.v}; }
MLX_RUNNERS_INLINE Mask gt(F32 a, F32 b) { return {a.v > b.v}; }
MLX_RUNNERS_INLINE F32 select(Mask m, F32 a, F32 b) {
  return {(Float4)(((Int4)a.v & m.v) | ((Int4)b.v & ~m.v))};
}
MLX_RUNNERS_INLINE F32 max(F32 a, F32 b) { return select(gt(a, b), a, b); }
MLX_RUNNERS_INLINE F32 min(F32 a, F32 b) { return select(gt(b, a), a, b); }
MLX_RUNNERS_INLINE F32 mul_pow2(F32 x, F32 t) { return {(Float4)((Int4)x.v + ((Int4)t.v << 23))}; }
MLX_RUNNERS_INLINE float hsum(F32 a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
MLX_RUNNERS_INLINE void store_hsum4(float* p, F32 a, F32 b, F32 c, F32 d) {
  p[0] = hsum(a);
  p[1] = hsum(b);
  p[2] = hsum(c);
  p[3] = hsum(d);
}
MLX_RUNNERS_INLINE float hmax(F32 a) {
  const float x = a.v[0] > a.v[2] ? a.v[0] : a.v[2];
  const float y = a.v[1] > a.v[3] ? a.v[1] : a.v[3];
  return x > y ? x : y;
}
MLX_RUNNERS_INLINE float first(F32 a) { return a.v[0]; }

/// dst[k * dst_step + i] = src[i * src_step + k] for i, k < 4.
MLX_RUNNERS_INLINE void transpose4(const float* src, int64_t src_step, float* dst,
                                   int64_t dst_step) {
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 4; ++i) {
      dst[k * dst_step + i] = src[i * src_step + k];
    }
  }
}

}  // namespace mlx_runners::cpu::baseline
