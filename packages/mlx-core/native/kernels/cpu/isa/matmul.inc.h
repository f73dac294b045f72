// Matrix product kernels. Part of isa/kernels.inc.h.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/simd.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

constexpr int kNr = kNv * kWidth;
constexpr int kLine = 16;  // floats in a cache line

MLX_RUNNERS_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
MLX_RUNNERS_INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// ---- few rows: dot products along the contiguous axis of both operands ----

// Rows and columns of the tile of dot products: its sums fit the registers beside the operands.
constexpr int kDotTileRows = kRegisters == 32 ? 6 : 2;
constexpr int kDotTileColumns = 4;
// With few registers the packed tile is the better one earlier on.
constexpr int kMaxDotRows = kRegisters == 32 ? 96 : 16;

/// y[m, n] for kRows rows of x and kColumns (4 or 1) rows of w. kUnroll vectors per step hide the
/// latency of the additions when there are few products to interleave.
template <int kRows, int kColumns>
void dot_tile(const float* x, int64_t x_step, const float* w, int64_t w_step, int64_t depth,
              const float* bias, float* y, int64_t y_step) {
  constexpr int kUnroll = kRows * kColumns <= 4 ? 2 : 1;
  F32 sums[kUnroll][kRows][kColumns];
#pragma GCC unroll 8
  for (int u = 0; u < kUnroll; ++u) {
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        sums[u][m][n] = zero();
      }
    }
  }
  int64_t k = 0;
  for (; k + kUnroll * kWidth <= depth; k += kUnroll * kWidth) {
#pragma GCC unroll 8
    for (int u = 0; u < kUnroll; ++u) {
      F32 right[kColumns];
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        const float* column = w + n * w_step + k + u * kWidth;
        // Keeps memory busy during the arithmetic with the rows of w that the next tile reads.
        __builtin_prefetch(column + kColumns * w_step);
        right[n] = load(column);
      }
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) {
        const F32 left = load(x + m * x_step + k + u * kWidth);
#pragma GCC unroll 8
        for (int n = 0; n < kColumns; ++n) {
          sums[u][m][n] = fma(left, right[n], sums[u][m][n]);
        }
      }
    }
  }
  for (; k < depth; k += kWidth) {
    const int rest = static_cast<int>(min64(depth - k, kWidth));
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m) {
      const F32 left = load_n(x + m * x_step + k, rest);
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        sums[0][m][n] = fma(left, load_n(w + n * w_step + k, rest), sums[0][m][n]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
    if constexpr (kUnroll == 2) {
#pragma GCC unroll 8
      for (int n = 0; n < kColumns; ++n) {
        sums[0][m][n] = sums[0][m][n] + sums[1][m][n];
      }
    }
    if constexpr (kColumns == 4) {
      store_hsum4(y + m * y_step, sums[0][m][0], sums[0][m][1], sums[0][m][2], sums[0][m][3]);
    } else {
      y[m * y_step] = hsum(sums[0][m][0]);
    }
    for (int n = 0; bias != nullptr && n < kColumns; ++n) {
      y[m * y_step + n] += bias[n];
    }
  }
}

using DotTile = void (*)(const float*, int64_t, const float*, int64_t, int64_t, const float*,
                         float*, int64_t);

struct DotTiles {
  DotTile whole[kDotTileRows + 1];   // kDotTileColumns columns
  DotTile single[kDotTileRows + 1];  // one column
};

template <int kRows>
constexpr void fill_dot_tiles(DotTiles& tiles) {
  tiles.whole[kRows] = dot_tile<kRows, kDotTileColumns>;
  tiles.single[kRows] = dot_tile<kRows, 1>;
  if constexpr (kRows > 1) {
    fill_dot_tiles<kRows - 1>(tiles);
  }
}

constexpr DotTiles make_dot_tiles() {
  DotTiles tiles{};
  fill_dot_tiles<kDotTileRows>(tiles);
  return tiles;
}

constexpr DotTiles kDotTiles = make_dot_tiles();

/// Blocks of even heights: 8 rows are 4 + 4 rather than 6 + 2.
void dot_rows(const float* x, int64_t x_step, int64_t rows, const float* w, int64_t w_step,
              int64_t begin, int64_t end, int64_t depth, const float* bias, float* y,
              int64_t y_step) {
  const int64_t blocks = (rows + kDotTileRows - 1) / kDotTileRows;
  const int64_t height = (rows + blocks - 1) / blocks;
  int64_t columns = 0;
  for (int64_t n = begin; n < end; n += columns) {
    const bool whole = n + kDotTileColumns <= end;
    columns = whole ? kDotTileColumns : 1;
    const float* column_bias = bias != nullptr ? bias + n : nullptr;
    for (int64_t m = 0; m < rows; m += height) {
      const int64_t present = min64(height, rows - m);
      const DotTile tile = whole ? kDotTiles.whole[present] : kDotTiles.single[present];
      tile(x + m * x_step, x_step, w + n * w_step, w_step, depth, column_bias, y + m * y_step + n,
           y_step);
    }
  }
}

// ---- many rows: packed operands and a register tile ----

enum class Start { kZero, kBias, kLoad };

/// c[kRows][kNr] = start + a[kRows][depth] x b[depth][kNr]: rows of a are kPackedRow apart.
/// `ahead`: memory that will be read soon, of which `depth` cache lines are fetched in passing.
template <int kRows>
void gemm_tile(int64_t depth, const float* a, const float* b, int64_t b_step, float* c,
               int64_t c_step, const float* bias, Start start, const float* ahead) {
  F32 sums[kRows][kNv];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      sums[r][v] = zero();
    }
  }
  if (start == Start::kLoad) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNv; ++v) {
        sums[r][v] = load(c + r * c_step + v * kWidth);
      }
    }
  } else if (start == Start::kBias) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kNv; ++v) {
        sums[r][v] = load(bias + v * kWidth);
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k, ++a, b += b_step, ahead += kLine) {
    __builtin_prefetch(ahead);
    F32 right[kNv];
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      right[v] = load(b + v * kWidth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32 left = set1(a[r * kPackedRow]);
#pragma GCC unroll 4
      for (int v = 0; v < kNv; ++v) {
        sums[r][v] = fma(left, right[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kNv; ++v) {
      store(c + r * c_step + v * kWidth, sums[r][v]);
    }
  }
}

using GemmTile = void (*)(int64_t, const float*, const float*, int64_t, float*, int64_t,
                          const float*, Start, const float*);

struct GemmTiles {
  GemmTile by_rows[kMr + 1];
};

template <int kRows>
constexpr void fill_tiles(GemmTiles& tiles) {
  tiles.by_rows[kRows] = gemm_tile<kRows>;
  if constexpr (kRows > 1) {
    fill_tiles<kRows - 1>(tiles);
  }
}

constexpr GemmTiles make_tiles() {
  GemmTiles tiles{};
  fill_tiles<kMr>(tiles);
  return tiles;
}

constexpr GemmTiles kTiles = make_tiles();

/// A tile of which only `columns` columns exist in c and bias.
void gemm_tile_part(int64_t rows, int64_t columns, int64_t depth, const float* a, const float* b,
                    int64_t b_step, float* c, int64_t c_step, const float* bias, Start start) {
  float tile[kMr * kNr] = {};
  float tile_bias[kNr] = {};
  const size_t bytes = static_cast<size_t>(columns) * sizeof(float);
  if (start == Start::kLoad) {
    for (int64_t r = 0; r < rows; ++r) {
      memcpy(tile + r * kNr, c + r * c_step, bytes);
    }
  } else if (start == Start::kBias) {
    memcpy(tile_bias, bias, bytes);
  }
  kTiles.by_rows[rows](depth, a, b, b_step, tile, kNr, tile_bias, start, b);
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(c + r * c_step, tile + r * kNr, bytes);
  }
}

/// panel[k][i] = w[i][k] for `present` rows of w; the panel's other columns are zero.
void pack_panel(const float* w, int64_t w_step, int64_t present, int64_t depth, float* panel) {
  constexpr int64_t kChunk = 64;  // Depth over which the panel stays in the first-level cache.
  const int64_t whole = present / 4 * 4;
  for (int64_t k0 = 0; k0 < depth; k0 += kChunk) {
    const int64_t end = min64(k0 + kChunk, depth);
    for (int64_t i = 0; i < whole; i += 4) {
      const float* rows = w + i * w_step;
      int64_t k = k0;
      for (; k + 4 <= end; k += 4) {
        transpose4(rows + k, w_step, panel + k * kNr + i, kNr);
      }
      for (; k < end; ++k) {
        for (int64_t j = 0; j < 4; ++j) {
          panel[k * kNr + i + j] = rows[j * w_step + k];
        }
      }
    }
    for (int64_t i = whole; i < kNr; ++i) {
      for (int64_t k = k0; k < end; ++k) {
        panel[k * kNr + i] = i < present ? w[i * w_step + k] : 0.0f;
      }
    }
  }
}

void pack_columns(const float* w, int64_t w_step, int64_t rows, int64_t depth, int64_t panel_begin,
                  int64_t panel_end, float* packed) {
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t row = p * kNr;
    pack_panel(w + row * w_step, w_step, min64(kNr, rows - row), depth, packed + row * depth);
  }
}

/// Columns [k0, k0 + depth) of a row, zeros where the row leaves its batch.
void copy_left_row(const LeftRows& left, int64_t row, int64_t k0, int64_t depth, float* to) {
  const int64_t batch = row / left.rows;
  const float* base = left.base + batch * left.batch_step;
  const int64_t start = (row - batch * left.rows) * left.row_step + left.row_offset + k0;
  const int64_t first = min64(max64(-start, 0), depth);
  const int64_t last = max64(min64(left.limit - start, depth), first);
  for (int64_t k = 0; k < first; ++k) {
    to[k] = 0.0f;
  }
  memcpy(to + first, base + (start + first), static_cast<size_t>(last - first) * sizeof(float));
  for (int64_t k = last; k < depth; ++k) {
    to[k] = 0.0f;
  }
}

void gemm_block(const LeftRows& left, int64_t begin, int64_t end, const GemmBlock& block,
                float* scratch) {
  const int64_t total = left.depth;
  const int64_t steps = (total + kDepth - 1) / kDepth;
  const int64_t step = (total + steps - 1) / steps;
  for (int64_t k0 = 0; k0 < total; k0 += step) {
    const int64_t depth = min64(step, total - k0);
    for (int64_t row = begin; row < end; ++row) {
      copy_left_row(left, row, k0, depth, scratch + (row - begin) * kPackedRow);
    }
    const Start start = k0 > 0 ? Start::kLoad : block.bias != nullptr ? Start::kBias : Start::kZero;
    for (int64_t n = 0; n < block.columns; n += kNr) {
      const float* panel = block.packed + n * total + k0 * kNr;
      const float* bias = block.bias != nullptr ? block.bias + n : nullptr;
      const float* ahead = n + kNr < block.columns ? panel + kNr * total : panel;
      const int64_t columns = min64(kNr, block.columns - n);
      for (int64_t row = begin; row < end; row += kMr) {
        const int64_t rows = min64(kMr, end - row);
        const float* a = scratch + (row - begin) * kPackedRow;
        float* c = block.out + row * block.out_step + n;
        if (columns == kNr) {
          // Each of the tiles below one another fetches its part of the next panel.
          const int64_t lines = (row - begin) / kMr * depth;
          const float* next = lines * kLine < depth * kNr ? ahead + lines * kLine : a;
          kTiles.by_rows[rows](depth, a, panel, kNr, c, block.out_step, bias, start, next);
        } else {
          gemm_tile_part(rows, columns, depth, a, panel, kNr, c, block.out_step, bias, start);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
