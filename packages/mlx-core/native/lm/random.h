// Random numbers of one completion.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace mlx_runners::lm {

// xoshiro128** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), its
// state filled by splitmix64 from the seed.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (size_t i = 0; i < state_.size(); i += 2) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      z ^= z >> 31;
      state_[i] = static_cast<uint32_t>(z);
      state_[i + 1] = static_cast<uint32_t>(z >> 32);
    }
  }

  // The next number from 0 up to but not 1, of 53 bits.
  double next() {
    const double high = bits() >> 5;
    const double low = bits() >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;
  }

 private:
  uint32_t bits() {
    const uint32_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint32_t shifted = state_[1] << 9;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 11);
    return result;
  }

  std::array<uint32_t, 4> state_;
};

}  // namespace mlx_runners::lm
