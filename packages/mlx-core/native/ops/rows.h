// The tables, one per MLX header and then our own; op_table() is all of them in this order.
#pragma once

#include <vector>

#include "ops/op.h"

namespace mlx_runners {

std::vector<Op> elementwise_rows();
std::vector<Op> shape_rows();
std::vector<Op> reduction_rows();
std::vector<Op> linear_rows();
std::vector<Op> fast_rows();
std::vector<Op> fft_rows();
std::vector<Op> random_rows();
std::vector<Op> block_rows();
std::vector<Op> quantized_rows();
std::vector<Op> kv_cache_rows();

}  // namespace mlx_runners
