#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// out = softmax(scale * q x k^T + mask) x v on the thread pool, for `batches` batches; all sizes
/// at least 1, heads a multiple of kv_heads. Never holds more than a block of the scores; keys
/// before all queries' windows are not read.
void attention(const Attention& op, int64_t batches);

}  // namespace mlx_runners::cpu
