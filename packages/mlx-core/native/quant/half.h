// float32 from and to the 16-bit types, by their bits: the same on every machine, with subnormal
// numbers, infinities and NaN, and also where the CPU takes subnormal numbers for zero.
#pragma once

#include <bit>
#include <cstdint>

namespace mlx_runners {

inline float float_of_half(uint16_t half) {
  constexpr uint32_t exponent = 0x1fu << 23;  // of a half, moved to where float32 has its own
  uint32_t bits = (half & 0x7fffu) << 13;
  const uint32_t found = bits & exponent;
  bits += (127u - 15u) << 23;
  if (found == exponent) bits += (128u - 16u) << 23;
  // Without the leading 1 that other numbers have: written with it, which is then taken off.
  if (found == 0)
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits + (1u << 23)) - 0x1p-14f);
  return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
}

/// To the nearest, ties to even; what is too large becomes infinite; NaN stays NaN, quietly.
inline uint16_t half_of_float(float number) {
  constexpr uint32_t infinity = 0x7f800000, too_large = 0x47800000, smallest_normal = 0x38800000;
  uint32_t bits = std::bit_cast<uint32_t>(number);
  const uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  uint32_t half;
  if (bits >= too_large) {
    half = bits > infinity ? 0x7e00 | (bits >> 13 & 0x3ff) : 0x7c00;
  } else if (bits < smallest_normal) {
    // The sum's last place is that of the smallest half: the addition rounds.
    half =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (bits - ((127u - 15u) << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(half | sign);
}

inline float float_of_bfloat(uint16_t number) {
  return std::bit_cast<float>(uint32_t{number} << 16);
}

/// To the nearest, ties to even; NaN stays NaN, quietly.
inline uint16_t bfloat_of_float(float number) {
  const uint32_t bits = std::bit_cast<uint32_t>(number);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace mlx_runners
