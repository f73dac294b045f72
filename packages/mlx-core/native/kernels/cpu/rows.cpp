#include "kernels/cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

namespace mlx_runners::cpu {
namespace {

// Elements in a piece: some microseconds of work.
constexpr int64_t kPiece = 16384;

int64_t rows_per_piece(int64_t columns) {
  return std::max<int64_t>(1, kPiece / std::max<int64_t>(columns, 1));
}

// A row of at least this many elements, such as the logits of a vocabulary, is cut into pieces.
constexpr int64_t kLongRow = 4 * kPiece;

/// Every piece has a maximum of its own at first, and is brought to the row's when that is known.
void softmax_long_row(const KernelTable& table, const float* x, float* y, int64_t columns) {
  const int64_t pieces = (columns - 1) / kPiece + 1;
  std::vector<float> max(static_cast<size_t>(pieces));
  std::vector<float> sum(static_cast<size_t>(pieces));
  parallel_for(columns, kPiece, [&](int64_t begin, int64_t end) {
    const auto piece = static_cast<size_t>(begin / kPiece);
    table.softmax_part(x + begin, y + begin, end - begin, &max[piece], &sum[piece]);
  });
  const float row_max = *std::max_element(max.begin(), max.end());
  float row_sum = 0.0f;
  for (size_t piece = 0; piece < max.size(); ++piece) {
    max[piece] = std::exp(max[piece] - row_max);  // from here on the factor
    row_sum += max[piece] * sum[piece];
  }
  parallel_for(columns, kPiece, [&](int64_t begin, int64_t end) {
    const float factor = max[static_cast<size_t>(begin / kPiece)] / row_sum;
    table.scale_row(y + begin, end - begin, factor);
  });
}

}  // namespace

void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  const KernelTable& table = kernels();
  if (columns >= kLongRow) {
    for (int64_t row = 0; row < rows; ++row) {
      softmax_long_row(table, x + row * columns, y + row * columns, columns);
    }
    return;
  }
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

void rms_norm_rows(const float* x, const float* weight, float eps, float* y, int64_t rows,
                   int64_t columns) {
  const KernelTable& table = kernels();
  parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    table.rms_norm_rows(x + begin * columns, weight, eps, y + begin * columns, end - begin,
                        columns);
  });
}

void add_rms_norm_rows(const float* x, const float* residual, const float* weight, float eps,
                       float* sum, float* y, int64_t rows, int64_t columns) {
  const KernelTable& table = kernels();
  parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    const int64_t at = begin * columns;
    table.add_rms_norm_rows(x + at, residual + at, weight, eps, sum + at, y + at, end - begin,
                            columns);
  });
}

void glu(GluKind kind, const float* gate, int64_t gate_step, const float* up, int64_t up_step,
         float* y, int64_t rows, int64_t columns) {
  const KernelTable& table = kernels();
  if (gate_step == columns && up_step == columns) {
    parallel_for(rows * columns, kPiece, [&](int64_t begin, int64_t end) {
      table.glu(kind, gate + begin, up + begin, y + begin, end - begin);
    });
    return;
  }
  parallel_for(rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      table.glu(kind, gate + row * gate_step, up + row * up_step, y + row * columns, columns);
    }
  });
}

}  // namespace mlx_runners::cpu
