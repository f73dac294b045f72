#include "kernels/cpu/rows.h"

#include <algorithm>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

namespace mlx_runners::cpu {
namespace {

// Elements in a piece: some microseconds of work.
constexpr int64_t kPiece = 16384;

int64_t rows_per_piece(int64_t columns) {
  return std::max<int64_t>(1, kPiece / std::max<int64_t>(columns, 1));
}

}  // namespace

void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  const KernelTable& table = kernels();
  parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    table.softmax_rows(x + begin * columns, y + begin * columns, end - begin, columns);
  });
}

void gelu(const float* x, float* y, int64_t n) {
  const KernelTable& table = kernels();
  parallel_for(n, kPiece,
               [&](int64_t begin, int64_t end) { table.gelu(x + begin, y + begin, end - begin); });
}

void layer_norm_rows(const float* x, const float* weight, const float* bias, float eps, float* y,
                     int64_t rows, int64_t columns) {
  const KernelTable& table = kernels();
  parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    table.layer_norm_rows(x + begin * columns, weight, bias, eps, y + begin * columns, end - begin,
                          columns);
  });
}

}  // namespace mlx_runners::cpu
