// What the kernels of every instruction set offer: single-threaded pieces of work. The drivers
// (rows.h, matmul.h, attention.h) cut ops into such pieces and run them on the thread pool.
//
// Included by the per-instruction-set sources as well: plain data only, no inline functions that
// the linker could merge across instruction sets.
#pragma once

#include <stdint.h>

namespace mlx_runners::cpu {

/// Columns of the left operand that are packed, and keys that attention handles, at a time.
constexpr int kDepth = 256;
/// Floats between rows of a packed left operand; 17 cache lines spread rows over all cache sets.
constexpr int kPackedRow = kDepth + 16;
/// Rows that `dot_rows` and `attention_decode` handle at once.
constexpr int kDotRows = 8;

/// Left operand of a matrix product, read in place: row r is [batch r / rows, position r % rows]
/// and has `depth` floats from `base + batch * batch_step + position * row_step + row_offset`. What
/// lies outside [0, limit) of its batch reads as zero, which makes a channels-last convolution a
/// matrix product whose rows overlap.
struct LeftRows {
  const float* base;
  int64_t batch_step;
  int64_t rows;
  int64_t row_step;
  int64_t row_offset;
  int64_t limit;
  int64_t depth;
};

/// Right operand packed by `pack_columns`, and where the product goes.
struct GemmBlock {
  const float* packed;
  const float* bias;  // [columns] or null
  float* out;         // row r at out + r * out_step
  int64_t out_step;
  int64_t columns;
};

enum class MaskKind { kNone, kAdditive, kBoolean };

/// Strides are in elements; the last axis of q, k, v and out is contiguous.
struct Attention {
  const float* q;    // [B, heads, queries, dim]
  const float* k;    // [B, kv_heads, keys, dim]
  const float* v;    // [B, kv_heads, keys, value_dim]
  float* out;        // [B, heads, queries, value_dim]
  const void* mask;  // broadcast to [B, heads, queries, keys]
  MaskKind mask_kind;
  bool causal;  // query i sees keys j <= i + keys - queries; never with a mask
  float scale;
  int64_t heads;
  int64_t kv_heads;
  int64_t queries;
  int64_t keys;
  int64_t dim;
  int64_t value_dim;
  int64_t q_strides[3];  // batch, head, position
  int64_t k_strides[3];
  int64_t v_strides[3];
  int64_t out_strides[3];
  int64_t mask_strides[4];
};

struct KernelTable {
  const char* name;
  int tile_rows;     // rows of the matrix kernels' register tile
  int tile_columns;  // columns of it, and of a packed panel

  /// y = softmax(x) over rows of `columns` floats; x may be y.
  void (*softmax_rows)(const float* x, float* y, int64_t rows, int64_t columns);
  /// y = x * Phi(x); x may be y.
  void (*gelu)(const float* x, float* y, int64_t n);
  /// y = (x - mean) / sqrt(variance + eps) * weight + bias by rows; weight, bias may be null.
  void (*layer_norm_rows)(const float* x, const float* weight, const float* bias, float eps,
                          float* y, int64_t rows, int64_t columns);

  /// y[m, n] = x[m] . w[n] + bias[n] for n in [begin, end) and all m: few rows, w read once.
  void (*dot_rows)(const float* x, int64_t x_step, int64_t rows, const float* w, int64_t w_step,
                   int64_t begin, int64_t end, int64_t depth, const float* bias, float* y,
                   int64_t y_step);

  /// Transposes rows of w into panels: panel p, at packed + p * tile_columns * depth, holds
  /// [depth][tile_columns] of rows p * tile_columns onwards, zero beyond `rows`.
  void (*pack_columns)(const float* w, int64_t w_step, int64_t rows, int64_t depth,
                       int64_t panel_begin, int64_t panel_end, float* packed);
  /// Rows [begin, end) of left x packed (+ bias). scratch: (end - begin rounded up to tile_rows) *
  /// kPackedRow floats.
  void (*gemm_block)(const LeftRows& left, int64_t begin, int64_t end, const GemmBlock& block,
                     float* scratch);

  /// Copies v[keys][value_dim] into panels [keys][tile_columns], zero beyond value_dim.
  void (*pack_values)(const float* v, int64_t v_step, int64_t keys, int64_t value_dim,
                      float* packed);
  /// Output rows [begin, end) of one head. k packed by pack_columns, v by pack_values.
  void (*attention_prefill)(const Attention& op, int64_t batch, int64_t head, int64_t begin,
                            int64_t end, const float* packed_k, const float* packed_v,
                            float* scratch);
  /// Keys [begin, end) (begin a multiple of kDepth) for all queries of all heads that share a kv
  /// head. partial: per query row value_dim sums of p * v, then the largest score and the sum of p.
  void (*attention_decode)(const Attention& op, int64_t batch, int64_t kv_head, int64_t begin,
                           int64_t end, float* partial, float* scratch);
};

}  // namespace mlx_runners::cpu
