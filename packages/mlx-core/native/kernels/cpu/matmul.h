#pragma once

#include <cstdint>
#include <functional>

#include "kernels/cpu/kernel_table.h"

namespace mlx_runners::cpu {

/// The row-contiguous x[rows, depth] as a left operand.
LeftRows plain_matrix(const float* x, int64_t rows, int64_t depth);

/// out[rows, columns] = left x w^T + bias on the thread pool: w [columns, left.depth]
/// row-contiguous, bias [columns] or null, out row-contiguous; all sizes at least 1. Few rows read
/// w once, at memory speed; many rows go through packed panels (Goto and van de Geijn, "Anatomy of
/// High-Performance Matrix Multiplication", 2008).
void matmul_transposed(const LeftRows& left, int64_t rows, const float* w, int64_t columns,
                       const float* bias, float* out);

/// Packs columns of a right operand: [column, column + present) into panels as `pack_columns` does
/// with rows of w, of which panels [begin, end) are asked for.
using PackColumns =
    std::function<void(int64_t column, int64_t present, int64_t begin, int64_t end, float* packed)>;

/// The same for many rows, with a right operand that `pack` makes; called from several threads.
void matmul_packed(const LeftRows& left, int64_t rows, int64_t columns, const PackColumns& pack,
                   const float* bias, float* out);

/// Writes rows [row, row + present) of w to to[present][step].
using UnpackRows = std::function<void(int64_t row, int64_t present, float* to, int64_t step)>;

/// out[rows, columns] = x[rows, depth] w^T + bias for up to `max_dot_rows` rows at x_step from one
/// another: w is unpacked a few rows at a time, into the first cache levels; from several threads.
void matmul_unpacked(const float* x, int64_t x_step, int64_t rows, int64_t depth, int64_t columns,
                     const UnpackRows& unpack, const float* bias, float* out);

/// A part of a product of many rows.
struct Piece {
  int64_t row;
  int64_t rows;
  int64_t column;
  int64_t columns;
};

/// Runs `fn` on the thread pool over pieces of a product [rows, columns] that start at multiples of
/// `tile_rows` and `tile_columns`: a few per thread, as even as the tiles allow.
void for_each_piece(int64_t rows, int64_t tile_rows, int64_t columns, int64_t tile_columns,
                    const std::function<void(const Piece&)>& fn);

}  // namespace mlx_runners::cpu
