// The K types, whose scales are quantised themselves.
#pragma once

#include "quant/blocks.h"

namespace mlx_runners {

void quantize(const float* x, BlockQ4_K& block);
void quantize(const float* x, BlockQ5_K& block);
void quantize(const float* x, BlockQ6_K& block);

}  // namespace mlx_runners
