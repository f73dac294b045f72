// Weights to blocks and back. A row is a number of consecutive blocks, and rows are consecutive, so
// that only the number of blocks matters here. Work is shared by the thread pool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quant/block_format.h"

namespace mlx_runners {

/// As in GGUF files: "Q4_K".
std::string_view name_of(BlockFormat format);
std::optional<BlockFormat> block_format_named(std::string_view name);
/// All names, with commas.
std::string block_format_names();

/// Writes count · block_size(format).weights numbers, the very same as gguf-py.
void dequantize_blocks(BlockFormat format, const uint8_t* blocks, int64_t count, float* weights);

/// Reads count · block_size(format).weights numbers. Writes the same bytes as gguf-py 0.19.0 in the
/// formats for which it can do that, which are all but the K types. A block with a number that
/// isn't finite holds nothing useful.
void quantize_blocks(BlockFormat format, const float* weights, int64_t count, uint8_t* blocks);

}  // namespace mlx_runners
