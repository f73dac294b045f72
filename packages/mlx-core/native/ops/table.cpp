#include <iterator>
#include <utility>

#include "ops/rows.h"

namespace mlx_runners {

const std::vector<Op>& op_table() {
  static const auto* table = [] {
    auto* all = new std::vector<Op>();
    for (auto rows :
         {elementwise_rows(), shape_rows(), reduction_rows(), linear_rows(), fast_rows(),
          fft_rows(), random_rows(), block_rows(), quantized_rows(), kv_cache_rows()}) {
      std::move(rows.begin(), rows.end(), std::back_inserter(*all));
    }
    return all;
  }();
  return *table;
}

}  // namespace mlx_runners
