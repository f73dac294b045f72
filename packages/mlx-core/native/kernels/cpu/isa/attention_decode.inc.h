// Attention of few queries: keys and values are read once and in place. Part of isa/kernels.inc.h.
//
// This is as fast as memory, so the order of reading counts: a key's or value's numbers lie in a
// row, and the hardware fetches ahead only along one row at a time. Several rows side by side, as
// the tiles of the matrix product read them, were half as fast.
#pragma once

#include "kernels/cpu/isa/attention.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

// Up to this number of rows, their sums in the first-level cache are added to value by value.
constexpr int kMaxRowsByValue = 4;

/// scores[kRows][keys], rows kPackedRow apart: products of q's rows and the keys.
template <int kRows>
void dot_keys(const float* q, int64_t dim, const float* k, int64_t k_step, int64_t keys,
              float* scores) {
  // As many sums as hide the latency of the additions.
  constexpr int kUnroll = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
  for (int64_t j = 0; j < keys; ++j, k += k_step) {
    F32 sums[kUnroll][kRows];
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[u][r] = zero();
      }
    }
    int64_t d = 0;
    for (; d + kUnroll * kWidth <= dim; d += kUnroll * kWidth) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll; ++u) {
        const F32 key = load(k + d + u * kWidth);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          sums[u][r] = fma(load(q + r * dim + d + u * kWidth), key, sums[u][r]);
        }
      }
    }
    for (; d < dim; d += kWidth) {
      const int lanes = static_cast<int>(min64(dim - d, kWidth));
      const F32 key = load_n(k + d, lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[0][r] = fma(load_n(q + r * dim + d, lanes), key, sums[0][r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int u = 1; u < kUnroll; ++u) {
        sums[0][r] = sums[0][r] + sums[u][r];
      }
    }
    constexpr int kFours = kRows / 4 * 4;
#pragma GCC unroll 2
    for (int r = 0; r < kFours; r += 4) {
      float four[4];
      store_hsum4(four, sums[0][r], sums[0][r + 1], sums[0][r + 2], sums[0][r + 3]);
      for (int i = 0; i < 4; ++i) {
        scores[(r + i) * kPackedRow + j] = four[i];
      }
    }
#pragma GCC unroll 4
    for (int r = kFours; r < kRows; ++r) {
      scores[r * kPackedRow + j] = hsum(sums[0][r]);
    }
  }
}

struct DotKeys {
  void (*by_rows[kDotRows + 1])(const float*, int64_t, const float*, int64_t, int64_t, float*);
};

template <int kRows>
constexpr void fill_dot_keys(DotKeys& all) {
  all.by_rows[kRows] = dot_keys<kRows>;
  if constexpr (kRows > 1) {
    fill_dot_keys<kRows - 1>(all);
  }
}

constexpr DotKeys make_dot_keys() {
  DotKeys all{};
  fill_dot_keys<kDotRows>(all);
  return all;
}

constexpr DotKeys kDotKeys = make_dot_keys();

/// sums[rows][value_dim] += p[rows][keys] x v[keys][value_dim], value by value.
void add_values_in_order(int64_t rows, int64_t keys, const float* p, const float* v, int64_t v_step,
                         int64_t value_dim, float* sums, int64_t sums_step) {
  for (int64_t j = 0; j < keys; ++j, v += v_step) {
    int64_t d = 0;
    for (; d + kWidth <= value_dim; d += kWidth) {
      const F32 value = load(v + d);
      for (int64_t r = 0; r < rows; ++r) {
        float* sum = sums + r * sums_step + d;
        store(sum, fma(set1(p[r * kPackedRow + j]), value, load(sum)));
      }
    }
    if (d < value_dim) {
      const int lanes = static_cast<int>(value_dim - d);
      const F32 value = load_n(v + d, lanes);
      for (int64_t r = 0; r < rows; ++r) {
        float* sum = sums + r * sums_step + d;
        store_n(sum, fma(set1(p[r * kPackedRow + j]), value, load_n(sum, lanes)), lanes);
      }
    }
  }
}

/// The same by the register tile: for so many rows that arithmetic counts as well.
void add_values_by_tiles(int64_t rows, int64_t keys, const float* p, const float* v, int64_t v_step,
                         int64_t value_dim, float* sums, int64_t sums_step, float* tail) {
  for (int64_t r = 0; r < rows; r += kMr) {
    const int64_t tile_rows = min64(kMr, rows - r);
    const float* a = p + r * kPackedRow;
    float* c = sums + r * sums_step;
    int64_t n = 0;
    for (; n + kNr <= value_dim; n += kNr) {
      kTiles.by_rows[tile_rows](keys, a, v + n, v_step, c + n, sums_step, nullptr, Start::kLoad, a);
    }
    if (n < value_dim) {
      if (r == 0) {
        pack_values(v + n, v_step, keys, value_dim - n, tail);
      }
      gemm_tile_part(tile_rows, value_dim - n, keys, a, tail, kNr, c + n, sums_step, nullptr,
                     Start::kLoad);
    }
  }
}

void add_values(int64_t rows, int64_t keys, const float* p, const float* v, int64_t v_step,
                int64_t value_dim, float* sums, int64_t sums_step, float* tail) {
  if (rows <= kMaxRowsByValue) {
    add_values_in_order(rows, keys, p, v, v_step, value_dim, sums, sums_step);
    return;
  }
  // So few values at a time that they stay in the first-level cache, the next ones on their way.
  const int64_t step = max64(4, 2048 / value_dim);
  for (int64_t key = 0; key < keys; key += step) {
    const int64_t present = min64(step, keys - key);
    const float* values = v + key * v_step;
    for (int64_t j = present; j < min64(2 * step, keys - key); ++j) {
      for (int64_t n = 0; n < value_dim; n += kLine) {
        __builtin_prefetch(values + j * v_step + n);
      }
    }
    add_values_by_tiles(rows, present, p + key, values, v_step, value_dim, sums, sums_step, tail);
  }
}

void attention_decode(const Attention& op, int64_t batch, int64_t kv_head, int64_t begin,
                      int64_t end, float* partial, float* scratch) {
  const int64_t group = op.heads / op.kv_heads;
  const int64_t rows = group * op.queries;
  const int64_t partial_row = op.value_dim + 2;
  float* scores = scratch;                       // [kDotRows][kPackedRow]
  float* tail = scores + kDotRows * kPackedRow;  // [kDepth][kNr]
  float* q = tail + kDepth * kNr;                // [rows][dim]
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t head = kv_head * group + r / op.queries;
    copy_scaled(
        op.q + batch * op.q_strides[0] + head * op.q_strides[1] + r % op.queries * op.q_strides[2],
        op.dim, op.scale, q + r * op.dim);
    float* sums = partial + r * partial_row;
    memset(sums, 0, static_cast<size_t>(partial_row) * sizeof(float));
    sums[op.value_dim] = -__builtin_inff();
  }
  const float* k = op.k + batch * op.k_strides[0] + kv_head * op.k_strides[1];
  const float* v = op.v + batch * op.v_strides[0] + kv_head * op.v_strides[1];
  for (int64_t key = begin; key < end; key += kDepth) {
    const int64_t keys = min64(kDepth, end - key);
    for (int64_t r0 = 0; r0 < rows; r0 += kDotRows) {
      const int64_t block = min64(kDotRows, rows - r0);
      float* sums = partial + r0 * partial_row;
      kDotKeys.by_rows[block](q + r0 * op.dim, op.dim, k + key * op.k_strides[2], op.k_strides[2],
                              keys, scores);
      for (int64_t r = 0; r < block; ++r) {
        const int64_t head = kv_head * group + (r0 + r) / op.queries;
        float* row_scores = scores + r * kPackedRow;
        float* row_sums = sums + r * partial_row;
        mask_scores(op, batch, head, (r0 + r) % op.queries, key, keys, row_scores);
        RunningSoftmax state{row_sums[op.value_dim], row_sums[op.value_dim + 1]};
        const float factor = softmax_step(row_scores, keys, state);
        if (factor != 1.0f) {
          scale_row(row_sums, op.value_dim, factor);
        }
        row_sums[op.value_dim] = state.max;
        row_sums[op.value_dim + 1] = state.sum;
      }
      add_values(block, keys, scores, v + key * op.v_strides[2], op.v_strides[2], op.value_dim,
                 sums, partial_row, tail);
    }
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
