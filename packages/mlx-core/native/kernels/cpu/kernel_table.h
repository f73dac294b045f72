// What the kernels of every instruction set offer: single-threaded pieces of work. The drivers
// (rows.h, matmul.h, attention.h) cut ops into such pieces and run them on the thread pool.
//
// Included by the per-instruction-set sources as well: plain data only, no inline functions that
// the linker could merge across instruction sets.
#pragma once

#include <stdint.h>

#include "kernels/cpu/weight_format.h"

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

/// What is multiplied by the other half in a gated linear unit (Shazeer, 2020).
enum class GluKind { kSwiglu, kGegluTanh, kGegluErf };

/// Rows that are turned by the same angles: the first `dims` of their `columns` floats.
struct RopeRows {
  const float* x;
  float* y;  // may be x
  int64_t x_step;
  int64_t y_step;
  int64_t rows;
  int64_t columns;
  int64_t dims;
  bool traditional;  // pairs are neighbours, not halves
};

/// Rows of activations rounded to 8 bits: x[r, k] is about codes[r, k] * scales[r, k / 32].
struct ByteRows {
  int8_t* codes;  // row r at codes + r * code_step
  int64_t code_step;
  float* scales;  // row r at scales + r * scale_step, as are those of sums
  int64_t scale_step;
  float* sums;  // of scale * code over the groups of the weights' format
  int64_t sum_step;
};

/// Weights as bytes, w[n, k] = codes[n, k] * scales[n, k / group] + offsets[n, k / group], in
/// panels of tile_columns columns, and where the product goes. Panel p holds [depth /
/// 4][tile_columns][4] codes and [depth / group][tile_columns] scales and offsets; columns beyond
/// the last are zero.
struct BytePanels {
  const uint8_t* codes;
  const float* scales;
  const float* offsets;
  float* out;  // row r at out + r * out_step
  int64_t out_step;
  int64_t columns;
  int64_t depth;
};

/// What the kernels do for one format of weights. Products are of one row x; products of several
/// rows are made of `dequantize` and the float32 kernels, or of `unpack` and `multiply_bytes`.
struct FormatKernels {
  /// out[k] = w[row, k0 + k] for k < depth; k0 and depth are multiples of the block.
  void (*dequantize)(const WeightRows& w, int64_t row, int64_t k0, int64_t depth, float* out);
  /// Puts x[depth] in the order in which dot_exact meets the weights, in exact_floats(depth)
  /// floats. Null for formats that are read in order.
  int64_t (*exact_floats)(int64_t depth);
  void (*order_exact)(const float* x, int64_t depth, float* ordered);
  /// y[n] = x . w[n] for n in [begin, end), in float32; x is ordered.
  void (*dot_exact)(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y);
  int max_exact_rows;  // so many rows, one after the other, are faster than unpacking for them all

  // The rest is null for formats without codes.

  /// The same with row 0 of rounded x.
  int64_t (*fast_floats)(int64_t depth);
  void (*order_fast)(const ByteRows& x, int64_t depth, float* ordered);
  void (*dot_fast)(const WeightRows& w, const float* x, int64_t begin, int64_t end, float* y);
  int max_fast_rows;
  /// codes[k], scales[k / group], offsets[k / group] of w[row, k0 + k] for k < depth.
  void (*unpack)(const WeightRows& w, int64_t row, int64_t k0, int64_t depth, uint8_t* codes,
                 float* scales, float* offsets);
  /// Rows [begin, end) of x times all columns.
  void (*multiply_bytes)(const ByteRows& x, int64_t begin, int64_t end, const BytePanels& w);
  int group;  // weights that share a scale: 16 or 32
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
  const float* sinks;  // [heads]: scores of keys without values; or null
  bool causal;         // query i sees keys j <= i + keys - queries; never with a mask
  int64_t window;      // query i sees keys j > i + keys - queries - window; 0: all
  float softcap;       // scores become softcap * tanh(score / softcap) before masks; 0: they stay
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
  int tile_rows;       // rows of the matrix kernels' register tile
  int tile_columns;    // columns of it, and of a packed panel
  int byte_tile_rows;  // rows of the tile of multiply_bytes
  int max_dot_rows;    // up to so many rows, dot_rows beats packing

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

  /// Rounds rows of x to 8 bits; sums over groups of 16 or 32. depth is a multiple of 32.
  void (*quantize_rows)(const float* x, int64_t x_step, int64_t rows, int64_t depth, int group,
                        const ByteRows& to);
  FormatKernels formats[kWeightFormats];

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

  /// y = exp(x - max) for a part of a row; returns the part's largest element and the sum of y. x
  /// may be y.
  void (*softmax_part)(const float* x, float* y, int64_t n, float* max, float* sum);
  void (*scale_row)(float* y, int64_t n, float factor);
  /// y = x / sqrt(mean of x^2 + eps) * weight by rows; weight may be null; x may be y.
  void (*rms_norm_rows)(const float* x, const float* weight, float eps, float* y, int64_t rows,
                        int64_t columns);
  /// sum = x + residual, then y = its rms norm; sum and y may each be one of x and residual.
  void (*add_rms_norm_rows)(const float* x, const float* residual, const float* weight, float eps,
                            float* sum, float* y, int64_t rows, int64_t columns);
  /// cosines, sines: [dims / 2], or when traditional [dims] with every angle twice, its sine first
  /// negated.
  void (*rope_rows)(const RopeRows& op, const float* cosines, const float* sines);
  /// y = activation(gate) * up; y may be one of them.
  void (*glu)(GluKind kind, const float* gate, const float* up, float* y, int64_t n);
};

}  // namespace mlx_runners::cpu
