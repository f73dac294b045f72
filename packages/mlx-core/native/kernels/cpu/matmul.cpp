#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/scratch.h"

namespace mlx_runners::cpu {
namespace {

// Above this number of rows of x, those of w are read so often that it pays to copy them first:
// rows a power of two apart push one another out of the cache.
constexpr int64_t kMaxDirectRows = 16;
// Multiplications in a piece of a product of unpacked rows.
constexpr int64_t kUnpackedPiece = int64_t{1} << 20;
// Floats of w in a piece of a product of few rows (64 KiB), and of packed w at a time (16 MiB: in
// the shared cache or partly so, and so many that threads seldom wait for each other).
constexpr int64_t kDotPiece = 16384;
constexpr int64_t kPackedFloats = int64_t{4} << 20;
constexpr int64_t kTilesPerBlock = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// Whether rows lie at one distance with nothing outside their batch to be zero-filled.
bool is_plain_matrix(const LeftRows& left, int64_t rows) {
  return rows <= left.rows && left.row_offset >= 0 &&
         left.row_offset + (rows - 1) * left.row_step + left.depth <= left.limit;
}

void gather_rows(const LeftRows& left, int64_t rows, float* to) {
  std::fill(to, to + rows * left.depth, 0.0f);
  for (int64_t row = 0; row < rows; ++row, to += left.depth) {
    const int64_t batch = row / left.rows;
    const int64_t start = row % left.rows * left.row_step + left.row_offset;
    const int64_t first = std::max<int64_t>(start, 0);
    const int64_t last = std::min(start + left.depth, left.limit);
    if (first < last) {
      std::memcpy(to + (first - start), left.base + batch * left.batch_step + first,
                  static_cast<size_t>(last - first) * sizeof(float));
    }
  }
}

void multiply_few_rows(const LeftRows& left, int64_t rows, const float* w, int64_t columns,
                       const float* bias, float* out) {
  const KernelTable& table = kernels();
  const bool plain = is_plain_matrix(left, rows);
  const Scratch gathered(plain ? 0 : static_cast<size_t>(rows * left.depth));
  if (!plain) {
    gather_rows(left, rows, gathered.data());
  }
  const float* x = plain ? left.base + left.row_offset : gathered.data();
  const int64_t step = plain ? left.row_step : left.depth;
  if (rows > kMaxDirectRows) {
    const auto copy = [&](int64_t row, int64_t present, float* to, int64_t to_step) {
      for (int64_t i = 0; i < present; ++i) {
        std::copy_n(w + (row + i) * left.depth, left.depth, to + i * to_step);
      }
    };
    matmul_unpacked(x, step, rows, left.depth, columns, copy, bias, out);
    return;
  }
  const int64_t grain = std::max<int64_t>(4, kDotPiece / left.depth);
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    table.dot_rows(x, step, rows, w, left.depth, begin, end, left.depth, bias, out, columns);
  });
}

void multiply_packed(const KernelTable& table, const LeftRows& left, int64_t rows,
                     const GemmBlock& block) {
  for_each_piece(rows, table.tile_rows, block.columns, table.tile_columns, [&](const Piece& piece) {
    const GemmBlock part{
        .packed = block.packed + piece.column * left.depth,
        .bias = block.bias != nullptr ? block.bias + piece.column : nullptr,
        .out = block.out + piece.column,
        .out_step = block.out_step,
        .columns = piece.columns,
    };
    const Scratch scratch(static_cast<size_t>(round_up(piece.rows, table.tile_rows) * kPackedRow));
    table.gemm_block(left, piece.row, piece.row + piece.rows, part, scratch.data());
  });
}

}  // namespace

LeftRows plain_matrix(const float* x, int64_t rows, int64_t depth) {
  return {.base = x,
          .batch_step = 0,
          .rows = rows,
          .row_step = depth,
          .row_offset = 0,
          .limit = rows * depth,
          .depth = depth};
}

void matmul_unpacked(const float* x, int64_t x_step, int64_t rows, int64_t depth, int64_t columns,
                     const UnpackRows& unpack, const float* bias, float* out) {
  constexpr int64_t kAtOnce = 4;    // columns of the tile of dot products
  const int64_t step = depth + 16;  // a power of two apart they would share a set of the cache
  const int64_t grain = std::max<int64_t>(1, kUnpackedPiece / (rows * depth * kAtOnce)) * kAtOnce;
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    const Scratch unpacked(static_cast<size_t>(kAtOnce * step));
    for (int64_t n = begin; n < end; n += kAtOnce) {
      const int64_t present = std::min(kAtOnce, end - n);
      unpack(n, present, unpacked.data(), step);
      kernels().dot_rows(x, x_step, rows, unpacked.data(), step, 0, present, depth,
                         bias != nullptr ? bias + n : nullptr, out + n, columns);
    }
  });
}

void for_each_piece(int64_t rows, int64_t tile_rows, int64_t columns, int64_t tile_columns,
                    const std::function<void(const Piece&)>& fn) {
  const int64_t workers = threads();
  const int64_t tiles = ceil_div(rows, tile_rows);
  const int64_t height =
      std::clamp<int64_t>(tiles / (4 * workers), std::min<int64_t>(tiles, 2), kTilesPerBlock);
  // As many for every thread, should all of them run.
  const int64_t blocks = std::min(tiles, round_up(ceil_div(tiles, height), workers));
  const int64_t panels = ceil_div(columns, tile_columns);
  const int64_t groups = std::min(panels, std::max<int64_t>(1, 4 * workers / blocks));
  parallel_for(blocks * groups, 1, [&](int64_t index, int64_t) {
    const int64_t block = index / groups;
    const int64_t group = index % groups;
    const int64_t row = tiles * block / blocks * tile_rows;
    const int64_t column = panels * group / groups * tile_columns;
    fn({.row = row,
        .rows = std::min(rows, tiles * (block + 1) / blocks * tile_rows) - row,
        .column = column,
        .columns = std::min(columns, panels * (group + 1) / groups * tile_columns) - column});
  });
}

void matmul_packed(const LeftRows& left, int64_t rows, int64_t columns, const PackColumns& pack,
                   const float* bias, float* out) {
  const KernelTable& table = kernels();
  const int64_t panel_floats = table.tile_columns * left.depth;
  const int64_t panels = std::max<int64_t>(1, kPackedFloats / panel_floats);
  const int64_t chunk = std::min(panels, ceil_div(columns, table.tile_columns));
  const Scratch packed(static_cast<size_t>(chunk * panel_floats));
  for (int64_t column = 0; column < columns; column += chunk * table.tile_columns) {
    const int64_t present = std::min(chunk * table.tile_columns, columns - column);
    parallel_for(ceil_div(present, table.tile_columns), 1, [&](int64_t begin, int64_t end) {
      pack(column, present, begin, end, packed.data());
    });
    multiply_packed(table, left, rows,
                    {.packed = packed.data(),
                     .bias = bias != nullptr ? bias + column : nullptr,
                     .out = out + column,
                     .out_step = columns,
                     .columns = present});
  }
}

void matmul_transposed(const LeftRows& left, int64_t rows, const float* w, int64_t columns,
                       const float* bias, float* out) {
  if (rows <= kernels().max_dot_rows) {
    multiply_few_rows(left, rows, w, columns, bias, out);
    return;
  }
  const auto pack = [&](int64_t column, int64_t present, int64_t begin, int64_t end,
                        float* packed) {
    kernels().pack_columns(w + column * left.depth, left.depth, present, left.depth, begin, end,
                           packed);
  };
  matmul_packed(left, rows, columns, pack, bias, out);
}

}  // namespace mlx_runners::cpu
