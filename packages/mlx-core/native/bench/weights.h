// Formats of weights, and matrices of random ones.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/quantized_matmul.h"

namespace mlx_runners::bench {

struct Format {
  const char* name;  // of blocks, ggml's
  cpu::WeightFormat format;
  int group;  // of an affine format, else 0
};

inline constexpr Format kFloats[] = {
    {"F32", cpu::WeightFormat::F32, 0},
    {"F16", cpu::WeightFormat::F16, 0},
    {"BF16", cpu::WeightFormat::BF16, 0},
};
inline constexpr Format kBlocks[] = {
    {"Q4_0", cpu::WeightFormat::Q4_0, 0}, {"Q4_1", cpu::WeightFormat::Q4_1, 0},
    {"Q5_0", cpu::WeightFormat::Q5_0, 0}, {"Q5_1", cpu::WeightFormat::Q5_1, 0},
    {"Q8_0", cpu::WeightFormat::Q8_0, 0}, {"Q4_K", cpu::WeightFormat::Q4_K, 0},
    {"Q5_K", cpu::WeightFormat::Q5_K, 0}, {"Q6_K", cpu::WeightFormat::Q6_K, 0},
};
inline constexpr Format kAffine[] = {
    {"4w", cpu::WeightFormat::Affine4_F16, 64},
    {"8w", cpu::WeightFormat::Affine8_F16, 64},
};

inline constexpr const Format& kQ4_1 = kBlocks[1];
inline constexpr const Format& kQ4_K = kBlocks[5];

/// Whether matrices of this depth can have the format.
bool fits(const Format& format, int64_t depth);

/// Well beyond the caches, and read in slices: short turns find a moment in which nobody disturbs.
inline constexpr int64_t kSlices = 6;
inline constexpr int64_t kSliceBytes = int64_t{64} << 20;

/// kSlices of bytes that are no infinite or NaN numbers of 16 or 32 bits.
std::vector<uint8_t> make_arena();

/// A matrix anywhere in the arena.
cpu::WeightMatrix matrix_at(const uint8_t* place, const Format& format, int64_t columns,
                            int64_t depth);

/// From one matrix to the next, in bytes.
int64_t matrix_step(const Format& format, int64_t columns, int64_t depth);

/// Numbers between -1 and 1.
std::vector<float> make_activations(int64_t count);

}  // namespace mlx_runners::bench
