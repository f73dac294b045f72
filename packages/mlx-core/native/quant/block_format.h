// The formats in which rows of weights are stored as GGUF has them: consecutive blocks of equal
// size. Plain data only, since the kernels of every instruction set include it.
#pragma once

#include <stdint.h>

namespace mlx_runners {

enum class BlockFormat : int { F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K };

struct BlockSize {
  int weights;
  int bytes;
};

constexpr BlockSize block_size(BlockFormat format) {
  switch (format) {
    case BlockFormat::F32:
      return {1, 4};
    case BlockFormat::F16:
    case BlockFormat::BF16:
      return {1, 2};
    case BlockFormat::Q4_0:
      return {32, 18};
    case BlockFormat::Q4_1:
      return {32, 20};
    case BlockFormat::Q5_0:
      return {32, 22};
    case BlockFormat::Q5_1:
      return {32, 24};
    case BlockFormat::Q8_0:
      return {32, 34};
    case BlockFormat::Q4_K:
      return {256, 144};
    case BlockFormat::Q5_K:
      return {256, 176};
    case BlockFormat::Q6_K:
      return {256, 210};
  }
  return {1, 0};
}

}  // namespace mlx_runners
