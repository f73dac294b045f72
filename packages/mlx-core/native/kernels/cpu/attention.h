#pragma once

#include <cstdint>

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// out = softmax(scale * q x k^T + mask) x v on the thread pool, for `batches` batches; all sizes
/// at least 1, heads a multiple of kv_heads. Never holds more than a block of the scores; keys
/// before all queries' windows are not read.
void attention(const Attention& op, int64_t batches);

/// Up to so many queries read keys and values where they lie; more have them packed.
constexpr int64_t kMaxDecodeQueries = 8;

/// The same over keys in a ring of `slots` rows: those from `wrap` on lie `slots` rows before where
/// k and v have them otherwise, or with negative slots after it. 0 < wrap <= keys; without a
/// boolean or additive mask.
void ring_attention(const Attention& op, int64_t batches, int64_t wrap, int64_t slots);

}  // namespace mlx_runners::cpu
