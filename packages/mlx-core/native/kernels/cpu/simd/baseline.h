// Any CPU that GCC or clang compiles for: 128-bit vectors in the compilers' own notation.
// Included by simd.h only.
#pragma once

namespace mlx_runners::cpu::baseline {

constexpr int kWidth = 4;
constexpr int kMr = 4;
constexpr int kNv = 2;
constexpr int kRegisters = 16;
constexpr bool kMultipliesBytes = false;

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
MLX_RUNNERS_INLINE F32 swap_pairs(F32 a) { return {Float4{a.v[1], a.v[0], a.v[3], a.v[2]}}; }
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

namespace mlx_runners::cpu::baseline {

typedef uint8_t Byte16 __attribute__((vector_size(16)));
typedef int16_t Short8 __attribute__((vector_size(16)));
typedef uint8_t Byte8 __attribute__((vector_size(8)));
typedef int8_t SignedByte8 __attribute__((vector_size(8)));

struct Bytes {
  Byte16 low;
  Byte16 high;
};
struct Int {
  Int4 v;
};

MLX_RUNNERS_INLINE Byte16 load16(const void* p) {
  Byte16 a;
  memcpy(&a, p, sizeof(a));
  return a;
}
MLX_RUNNERS_INLINE Bytes load_bytes(const void* p) {
  return {load16(p), load16(static_cast<const uint8_t*>(p) + 16)};
}
MLX_RUNNERS_INLINE Bytes set1_bytes(int x) {
  const Byte16 a = Byte16{} + static_cast<uint8_t>(x);
  return {a, a};
}
MLX_RUNNERS_INLINE Bytes operator&(Bytes a, Bytes b) { return {a.low & b.low, a.high & b.high}; }
MLX_RUNNERS_INLINE Bytes operator|(Bytes a, Bytes b) { return {a.low | b.low, a.high | b.high}; }
MLX_RUNNERS_INLINE Bytes operator^(Bytes a, Bytes b) { return {a.low ^ b.low, a.high ^ b.high}; }
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_left(Bytes a) {
  return {a.low << kBits, a.high << kBits};
}
template <int kBits>
MLX_RUNNERS_INLINE Bytes shift_right(Bytes a) {
  return {a.low >> kBits, a.high >> kBits};
}
MLX_RUNNERS_INLINE Bytes low_nibbles(Bytes a) { return a & set1_bytes(15); }
MLX_RUNNERS_INLINE Bytes nibbles(const uint8_t* p) {
  const Byte16 packed = load16(p);
  return low_nibbles({packed, packed >> 4});
}
MLX_RUNNERS_INLINE Bytes nibble_pairs(const uint8_t* p) {
  uint8_t codes[32];
  for (int i = 0; i < 16; ++i) {
    codes[2 * i] = p[i] & 15;
    codes[2 * i + 1] = p[i] >> 4;
  }
  return load_bytes(codes);
}
MLX_RUNNERS_INLINE Bytes look_up(const uint8_t* table, Bytes codes) {
  uint8_t bytes[32];
  memcpy(bytes, &codes, sizeof(bytes));
  for (int i = 0; i < 32; ++i) {
    bytes[i] = table[bytes[i]];
  }
  return load_bytes(bytes);
}
MLX_RUNNERS_INLINE Bytes spread_bits(const uint8_t* p, int value) {
  uint8_t bytes[32];
  for (int i = 0; i < 32; ++i) {
    bytes[i] = static_cast<uint8_t>((p[i / 8] >> (i % 8) & 1) * value);
  }
  return load_bytes(bytes);
}

MLX_RUNNERS_INLINE float half_to_float(const uint8_t* p) {
  uint16_t half;
  memcpy(&half, p, sizeof(half));
  uint32_t bits = (half & 0x7fffU) << 13;
  if (bits >= 0x7c00U << 13) {
    bits |= 0x7f800000U;  // infinite or NaN
  }
  float magnitude;
  memcpy(&magnitude, &bits, sizeof(bits));
  magnitude *= 0x1p112f;  // The exponents' biases differ by 112; subnormals come out right, too.
  return half & 0x8000U ? -magnitude : magnitude;
}
MLX_RUNNERS_INLINE void half_floats(uint64_t four, float* out) {
  uint8_t halves[8];
  memcpy(halves, &four, sizeof(halves));
  for (int i = 0; i < 4; ++i) {
    out[i] = half_to_float(halves + 2 * i);
  }
}
MLX_RUNNERS_INLINE void scale8_unsigned(uint64_t eight, float factor, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = factor * static_cast<float>(static_cast<uint8_t>(eight >> 8 * i));
  }
}
MLX_RUNNERS_INLINE void scale8_signed(uint64_t eight, float factor, float* out) {
  for (int i = 0; i < 8; ++i) {
    out[i] = factor * static_cast<float>(static_cast<int8_t>(eight >> 8 * i));
  }
}

MLX_RUNNERS_INLINE Int zero_int() { return {Int4{}}; }
MLX_RUNNERS_INLINE Int load_int(const void* p) {
  Int a;
  memcpy(&a.v, p, sizeof(a.v));
  return a;
}
MLX_RUNNERS_INLINE Int set1_int(const int8_t* four) {
  int32_t bits;
  memcpy(&bits, four, sizeof(bits));
  return {Int4{bits, bits, bits, bits}};
}
MLX_RUNNERS_INLINE Int times_256(Int a) { return {a.v << 8}; }
MLX_RUNNERS_INLINE void store_rounded(int32_t* p, F32 a) {
  for (int i = 0; i < kWidth; ++i) {
    p[i] = static_cast<int32_t>(__builtin_rintf(a.v[i]));
  }
}
MLX_RUNNERS_INLINE F32 to_float(Int a) { return {__builtin_convertvector(a.v, Float4)}; }

/// Products of bytes i of both, in 32-bit sums of pairs; a product fits 16 bits.
MLX_RUNNERS_INLINE Int4 pair_sums(Byte16 codes, Byte16 x, int begin) {
  Byte8 c;
  SignedByte8 s;
  memcpy(&c, reinterpret_cast<const uint8_t*>(&codes) + begin, sizeof(c));
  memcpy(&s, reinterpret_cast<const uint8_t*>(&x) + begin, sizeof(s));
  const Short8 products = __builtin_convertvector(c, Short8) * __builtin_convertvector(s, Short8);
  const Int4 both = (Int4)products;
  return (both >> 16) + (both << 16 >> 16);
}
template <bool kNarrow>
MLX_RUNNERS_INLINE Int dot4(Int sum, Int codes, Int x) {
  const Int4 a = pair_sums((Byte16)codes.v, (Byte16)x.v, 0);
  const Int4 b = pair_sums((Byte16)codes.v, (Byte16)x.v, 8);
  return {sum.v + Int4{a[0], a[2], b[0], b[2]} + Int4{a[1], a[3], b[1], b[3]}};
}
MLX_RUNNERS_INLINE Int dot16(Byte16 codes, Byte16 x) {
  return {pair_sums(codes, x, 0) + pair_sums(codes, x, 8)};
}

MLX_RUNNERS_INLINE void round_to_bytes(const F32* x, F32 scale, int8_t* out) {
  const F32 magic = set1(MLX_RUNNERS_ROUND_MAGIC);
  for (int i = 0; i < 8; ++i) {
    const Int4 rounded = (Int4)(x[i] * scale + magic).v;
    for (int j = 0; j < 4; ++j) {
      out[4 * i + j] = static_cast<int8_t>(rounded[j]);
    }
  }
}

MLX_RUNNERS_INLINE void code_floats(Bytes codes, F32* out) {
  uint8_t bytes[32];
  float floats[32];
  memcpy(bytes, &codes, sizeof(bytes));
  for (int i = 0; i < 32; ++i) {
    floats[i] = bytes[i];
  }
  for (int i = 0; i < 8; ++i) {
    out[i] = load(floats + 4 * i);
  }
}

MLX_RUNNERS_INLINE F32 load_halves(const uint8_t* p) {
  return {
      Float4{half_to_float(p), half_to_float(p + 2), half_to_float(p + 4), half_to_float(p + 6)}};
}
MLX_RUNNERS_INLINE F32 load_bfloats(const uint8_t* p) {
  uint16_t bits[4];
  memcpy(bits, p, sizeof(bits));
  return {(Float4)(Int4{bits[0], bits[1], bits[2], bits[3]} << 16)};
}

MLX_RUNNERS_INLINE Int splat(int byte) {
  const int lane = static_cast<int>(0x01010101U * static_cast<uint32_t>(byte));
  return {Int4{lane, lane, lane, lane}};
}
MLX_RUNNERS_INLINE Int operator&(Int a, Int b) { return {a.v & b.v}; }
MLX_RUNNERS_INLINE Int operator^(Int a, Int b) { return {a.v ^ b.v}; }
MLX_RUNNERS_INLINE Int operator-(Int a, Int b) { return {a.v - b.v}; }
template <int kMask>
MLX_RUNNERS_INLINE Int select_bits(Int a, Int b) {
  const Int mask = splat(kMask);
  return {(a.v & mask.v) | (b.v & ~mask.v)};
}
template <int kBits>
MLX_RUNNERS_INLINE Int shift_words(Int a) {
  if constexpr (kBits < 0) {
    return {(Int4)((Short8)a.v >> -kBits)};
  } else {
    return {(Int4)((Short8)a.v << kBits)};
  }
}
template <int kFirst, int>
MLX_RUNNERS_INLINE Int shift_word_halves(Int a) {
  return shift_words<kFirst>(a);
}
template <int kValue>
MLX_RUNNERS_INLINE Int bit_bytes(uint64_t bits) {
  uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) {
    bytes[i] = static_cast<uint8_t>((bits >> i & 1) * kValue);
  }
  return load_int(bytes);
}

template <int kStride>
MLX_RUNNERS_INLINE Int load_quads(const uint8_t* p) {
  return load_int(p + kStride - 16);
}
template <int>
MLX_RUNNERS_INLINE void halves_of_four(const uint8_t* const* p, F32& a, F32& b) {
  float four[2][4];
  for (int r = 0; r < 4; ++r) {
    four[0][r] = half_to_float(p[r]);
    four[1][r] = half_to_float(p[r] + 2);
  }
  a = load(four[0]);
  b = load(four[1]);
}
template <int r>
MLX_RUNNERS_INLINE F32 spread_part(F32 a) {
  return set1(a.v[r]);
}
MLX_RUNNERS_INLINE void store_part_sums(float* p, F32 a) { store(p, a); }
template <int>
MLX_RUNNERS_INLINE Int load_pair(const uint8_t* p) {
  return load_int(p);
}
template <int v>
MLX_RUNNERS_INLINE Int part(Bytes a) {
  return {(Int4)(v == 0 ? a.low : a.high)};
}
template <int g0, int, int, int>
MLX_RUNNERS_INLINE F32 spread_quads(const float* p) {
  return set1(p[g0]);
}
template <int p, int kBits>
MLX_RUNNERS_INLINE F32 byte_floats(Int codes) {
  if constexpr (p == 3 && kBits == 8) {
    return to_float({codes.v >> 24 & 255});
  } else {
    return to_float({codes.v & (((1 << kBits) - 1) << 8 * p)});
  }
}

}  // namespace mlx_runners::cpu::baseline

#include "kernels/cpu/simd/code_weights.h"
