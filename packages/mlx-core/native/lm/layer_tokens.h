// What a layer's attention is given of a step's tokens.
#pragma once

#include <optional>

#include "mlx/array.h"
#include "mlx/utils.h"
#include "ops/op.h"

namespace mlx_runners::lm {

namespace mx = mlx::core;

// By how much q and k are yet to be turned for their positions; as in the op rope.
struct LayerRotation {
  int dims = 0;  // 0: they come rotated
  bool traditional = false;
  std::optional<float> base = {};
  float scale = 1;                      // of positions
  std::optional<mx::array> freqs = {};  // float32 [dims / 2]
};

// q [B, heads, T, size], k [B, kv_heads, T, size], v [B, kv_heads, T, value_size]; or, where the
// numbers of heads are given, side by side: [B, T, heads · size] and so on.
struct LayerTokens {
  mx::array q;
  mx::array k;
  mx::array v;
  IntOrArray position;
  int layer;
  float scale;
  int window;        // 0: none
  float softcap;     // 0: none
  int heads = 0;     // the result has them side by side, too; 0: all are split
  int kv_heads = 0;  // as `heads`: both or none
  LayerRotation rotation = {};
};

struct HeadSizes {
  int batch;
  int heads;
  int tokens;
  int size;
};
HeadSizes sizes_of(const mx::array& x, int heads);
inline HeadSizes q_sizes(const LayerTokens& tokens) { return sizes_of(tokens.q, tokens.heads); }
inline HeadSizes k_sizes(const LayerTokens& tokens) { return sizes_of(tokens.k, tokens.kv_heads); }
inline HeadSizes v_sizes(const LayerTokens& tokens) { return sizes_of(tokens.v, tokens.kv_heads); }

// Throws CodedError "SHAPE", "DTYPE" for what can't be split or rotated.
void check_form(const LayerTokens& tokens);

// The same in MLX's ops and ours: all split, q and k rotated.
LayerTokens split_and_rotated(const LayerTokens& tokens, mx::Stream stream);

// Of the result. Throws CodedError "SHAPE" where heads side by side don't fit 32 bits.
mx::Shape attended_shape(const LayerTokens& tokens);

// What split tokens gave, [B, heads, T, value_size], in the form of these.
mx::array in_form_of(const LayerTokens& tokens, const mx::array& attended, mx::Stream stream);

}  // namespace mlx_runners::lm
