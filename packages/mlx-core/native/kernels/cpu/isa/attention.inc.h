// Attention kernels: blocks of keys with a running maximum and sum per query (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention",
// 2022). Part of isa/kernels.inc.h.
//
// As in MLX, a key that the causal or a boolean mask hides gets the lowest finite score, so a query
// that sees no key at all averages the values of all keys; an additive mask of -inf throughout
// gives NaN.
#pragma once

#include "kernels/cpu/isa/activations.inc.h"
#include "kernels/cpu/isa/matmul.inc.h"

namespace mlx_runners::cpu::MLX_RUNNERS_ISA {
namespace {

constexpr float kHidden = -3.40282347e+38f;

/// The first key that query `i` sees.
int64_t first_key(const Attention& op, int64_t i) {
  return op.window > 0 ? max64(0, i + op.keys - op.queries - op.window + 1) : 0;
}

/// Caps the scores of query `i` for keys [begin, begin + n) and hides or weighs what the masks say.
void mask_scores(const Attention& op, int64_t batch, int64_t head, int64_t i, int64_t begin,
                 int64_t n, float* scores) {
  if (op.softcap > 0.0f) {
    cap_row(scores, n, op.softcap);
  }
  if (op.causal) {
    const int64_t visible = i + op.keys - op.queries + 1 - begin;
    for (int64_t j = max64(visible, 0); j < n; ++j) {
      scores[j] = kHidden;
    }
  }
  const int64_t outside = min64(first_key(op, i) - begin, n);
  for (int64_t j = 0; j < outside; ++j) {
    scores[j] = kHidden;
  }
  if (op.mask_kind == MaskKind::kNone) {
    return;
  }
  const int64_t step = op.mask_strides[3];
  const int64_t at = batch * op.mask_strides[0] + head * op.mask_strides[1] +
                     i * op.mask_strides[2] + begin * step;
  if (op.mask_kind == MaskKind::kBoolean) {
    const uint8_t* mask = static_cast<const uint8_t*>(op.mask) + at;
    for (int64_t j = 0; j < n; ++j) {
      scores[j] = mask[j * step] != 0 ? scores[j] : kHidden;
    }
  } else if (step == 1) {
    const float* mask = static_cast<const float*>(op.mask) + at;
    for (int64_t j = 0; j < n; j += kWidth) {
      const int lanes = static_cast<int>(min64(n - j, kWidth));
      store_n(scores + j, load_n(scores + j, lanes) + load_n(mask + j, lanes), lanes);
    }
  } else {
    const float* mask = static_cast<const float*>(op.mask) + at;
    for (int64_t j = 0; j < n; ++j) {
      scores[j] += mask[j * step];
    }
  }
}

struct RunningSoftmax {
  float max;  // largest score so far
  float sum;  // of exp(score - max)
};

/// Turns scores into exp(score - max) and updates `state`; returns the factor that brings what was
/// accumulated before to the new maximum.
float softmax_step(float* scores, int64_t n, RunningSoftmax& state) {
  const float largest = row_max(scores, n);
  const float max = largest > state.max ? largest : state.max;
  // While every score is -inf there is nothing to shift by; the sum stays 0.
  const float shift = max == -__builtin_inff() ? 0.0f : max;
  const float factor =
      state.max == -__builtin_inff() ? 0.0f : first(exp_nonpositive(set1(state.max - shift)));
  state.sum = state.sum * factor + exp_row(scores, scores, n, shift);
  state.max = max;
  return factor;
}

void copy_scaled(const float* from, int64_t n, float scale, float* to) {
  const F32 factor = set1(scale);
  for (int64_t i = 0; i < n; i += kWidth) {
    const int lanes = static_cast<int>(min64(n - i, kWidth));
    store_n(to + i, load_n(from + i, lanes) * factor, lanes);
  }
}

// Prefill: packed keys and values, the register tile of the matrix product.

void pack_values(const float* v, int64_t v_step, int64_t keys, int64_t value_dim, float* packed) {
  for (int64_t j = 0; j < keys; ++j, v += v_step, packed += kNr) {
    float* row = packed;
    int64_t n = 0;
    for (; n + kNr <= value_dim; n += kNr, row += keys * kNr) {
      for (int i = 0; i < kNr; i += kWidth) {
        store(row + i, load(v + n + i));
      }
    }
    for (int i = 0; n < value_dim && i < kNr; i += kWidth) {
      const int64_t lanes = max64(0, min64(kWidth, value_dim - n - i));
      store(row + i, lanes > 0 ? load_n(v + n + i, static_cast<int>(lanes)) : zero());
    }
  }
}

/// scores[rows][keys of the block] = q x k^T.
void score_tile(const Attention& op, const float* q, int64_t q_panel, int64_t rows,
                const float* packed_k, int64_t key_begin, int64_t keys, float* scores) {
  for (int64_t n = 0; n < keys; n += kNr) {
    const float* panel = packed_k + (key_begin + n) * op.dim;
    for (int64_t k0 = 0; k0 < op.dim; k0 += kDepth) {
      kTiles.by_rows[rows](min64(kDepth, op.dim - k0), q + k0 / kDepth * q_panel, panel + k0 * kNr,
                           kNr, scores + n, kPackedRow, nullptr,
                           k0 == 0 ? Start::kZero : Start::kLoad, panel + kNr * op.dim);
    }
  }
}

void attention_prefill(const Attention& op, int64_t batch, int64_t head, int64_t begin, int64_t end,
                       const float* packed_k, const float* packed_v, float* scratch) {
  const int64_t rows = end - begin;
  const int64_t out_row = (op.value_dim + kNr - 1) / kNr * kNr;
  const int64_t chunks = (op.dim + kDepth - 1) / kDepth;
  const int64_t q_panel = static_cast<int64_t>(kMr) * kPackedRow;
  const int64_t panels = (rows + kMr - 1) / kMr;
  float* q = scratch;                             // [panels][chunks][kMr][kPackedRow]
  float* scores = q + panels * chunks * q_panel;  // [kMr][kPackedRow]
  float* sums = scores + q_panel;                 // [rows][out_row]
  RunningSoftmax* states = reinterpret_cast<RunningSoftmax*>(sums + rows * out_row);
  for (int64_t r = 0; r < rows; ++r) {
    const float* from =
        op.q + batch * op.q_strides[0] + head * op.q_strides[1] + (begin + r) * op.q_strides[2];
    float* to = q + r / kMr * chunks * q_panel + r % kMr * kPackedRow;
    for (int64_t c = 0; c < chunks; ++c) {
      copy_scaled(from + c * kDepth, min64(kDepth, op.dim - c * kDepth), op.scale,
                  to + c * q_panel);
    }
    // A sink is a key that was seen before all others.
    states[r] = op.sinks != nullptr ? RunningSoftmax{op.sinks[head], 1.0f}
                                    : RunningSoftmax{-__builtin_inff(), 0.0f};
    memset(sums + r * out_row, 0, static_cast<size_t>(out_row) * sizeof(float));
  }
  // Keys that no query of these rows sees are left out, unless some query sees none at all and
  // averages all values.
  const bool all_keys = (op.causal && begin + op.keys - op.queries < 0) ||
                        (op.window > 0 && op.mask_kind == MaskKind::kBoolean);
  const bool to_the_end = all_keys || !op.causal;
  const int64_t key_end = to_the_end ? op.keys : end + op.keys - op.queries;
  const int64_t key_begin = all_keys ? 0 : first_key(op, begin) / kNr * kNr;
  for (int64_t key = key_begin; key < key_end; key += kDepth) {
    for (int64_t p = 0; p < panels; ++p) {
      const int64_t row = p * kMr;
      const int64_t tile_rows = min64(kMr, rows - row);
      const int64_t visible = to_the_end ? op.keys : begin + row + tile_rows + op.keys - op.queries;
      const int64_t keys = min64(kDepth, visible - key);
      if (keys <= 0 || (!all_keys && key + keys <= first_key(op, begin + row))) {
        continue;
      }
      score_tile(op, q + p * chunks * q_panel, q_panel, tile_rows, packed_k, key, keys, scores);
      for (int64_t r = 0; r < tile_rows; ++r) {
        float* row_scores = scores + r * kPackedRow;
        mask_scores(op, batch, head, begin + row + r, key, keys, row_scores);
        const float factor = softmax_step(row_scores, keys, states[row + r]);
        if (factor != 1.0f) {
          scale_row(sums + (row + r) * out_row, out_row, factor);
        }
      }
      for (int64_t n = 0; n < out_row; n += kNr) {
        kTiles.by_rows[tile_rows](keys, scores, packed_v + n * op.keys + key * kNr, kNr,
                                  sums + row * out_row + n, out_row, nullptr, Start::kLoad, scores);
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* to = op.out + batch * op.out_strides[0] + head * op.out_strides[1] +
                (begin + r) * op.out_strides[2];
    copy_scaled(sums + r * out_row, op.value_dim, 1.0f / states[r].sum, to);
  }
}

}  // namespace
}  // namespace mlx_runners::cpu::MLX_RUNNERS_ISA
