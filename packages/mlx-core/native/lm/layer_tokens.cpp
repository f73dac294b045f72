#include "lm/layer_tokens.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/errors.h"
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"

namespace mlx_runners::lm {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw CodedError("SHAPE", message); }

void check_heads(const char* name, const mx::array& x, const char* count, int heads) {
  if (x.ndim() == 4) {
    if (heads == 0 || x.shape(1) == heads) return;
    refuse(std::string(name) + " has " + std::to_string(x.shape(1)) + " heads, and " + count +
           " is " + std::to_string(heads));
  }
  if (x.ndim() == 3 && heads > 0) {
    if (x.shape(2) % heads == 0) return;
    refuse(std::string(name) + " has rows of " + std::to_string(x.shape(2)) +
           ", which are no multiple of " + count + ", " + std::to_string(heads));
  }
  refuse(std::string(name) +
         " has to be of 4 axes, batch, heads, tokens and size, or with `heads` and `kvHeads` of 3, "
         "batch, tokens and heads · size");
}

void check_position(const IntOrArray& position) {
  const auto* array = std::get_if<mx::array>(&position);
  if (!array) return;
  if (!mx::issubdtype(array->dtype(), mx::integer)) {
    throw CodedError("DTYPE", "position has to be an integer, or an array of them");
  }
  if (array->ndim() > 1) refuse("position has to have at most 1 axis");
}

void check_rotation(const LayerRotation& rotation, int size) {
  const auto& [dims, traditional, base, scale, freqs] = rotation;
  if (dims == 0) {
    if (base || freqs) refuse("base and freqs are those of a rotation, which needs dims");
    return;
  }
  if (dims < 0 || dims % 2 != 0 || dims > size) {
    refuse("dims has to be an even number up to the size of a head, " + std::to_string(size) +
           ", or 0 where q and k come rotated");
  }
  if (base.has_value() == freqs.has_value()) {
    refuse("a rotation needs either base or freqs");
  }
  if (!freqs) return;
  if (freqs->dtype() != mx::float32) throw CodedError("DTYPE", "freqs have to be float32");
  if (freqs->ndim() != 1 || freqs->shape(0) != dims / 2) {
    refuse("freqs have to be of one axis of dims / 2, " + std::to_string(dims / 2));
  }
}

mx::array split(const mx::array& x, int heads, mx::Stream stream) {
  if (x.ndim() == 4) return x;
  const auto [batch, count, tokens, size] = sizes_of(x, heads);
  return mx::swapaxes(mx::reshape(x, {batch, tokens, count, size}, stream), 1, 2, stream);
}

}  // namespace

HeadSizes sizes_of(const mx::array& x, int heads) {
  if (x.ndim() == 4) return {x.shape(0), x.shape(1), x.shape(2), x.shape(3)};
  return {x.shape(0), heads, x.shape(1), x.shape(2) / heads};
}

void check_form(const LayerTokens& tokens) {
  for (const auto& [name, x] : {std::pair("q", &tokens.q), {"k", &tokens.k}, {"v", &tokens.v}}) {
    if (mx::issubdtype(x->dtype(), mx::floating)) continue;
    throw CodedError("DTYPE", std::string(name) + " has to be of floats");
  }
  if (tokens.heads < 0 || tokens.kv_heads < 0 || (tokens.heads > 0) != (tokens.kv_heads > 0)) {
    refuse("heads and kvHeads have to be positive, or both 0 where q, k and v are split");
  }
  check_heads("q", tokens.q, "heads", tokens.heads);
  check_heads("k", tokens.k, "kvHeads", tokens.kv_heads);
  check_heads("v", tokens.v, "kvHeads", tokens.kv_heads);
  check_position(tokens.position);
  check_rotation(tokens.rotation, std::min(q_sizes(tokens).size, k_sizes(tokens).size));
}

LayerTokens split_and_rotated(const LayerTokens& tokens, mx::Stream stream) {
  LayerTokens plain = tokens;
  plain.heads = plain.kv_heads = 0;
  plain.rotation = {};
  plain.q = split(tokens.q, tokens.heads, stream);
  plain.k = split(tokens.k, tokens.kv_heads, stream);
  plain.v = split(tokens.v, tokens.kv_heads, stream);
  const auto& [dims, traditional, base, scale, freqs] = tokens.rotation;
  if (dims == 0) return plain;
  for (mx::array* x : {&plain.q, &plain.k}) {
    *x = cpu::rope(*x, dims, traditional, base, scale, tokens.position, freqs, stream);
  }
  return plain;
}

mx::Shape attended_shape(const LayerTokens& tokens) {
  const HeadSizes q = q_sizes(tokens);
  const int size = v_sizes(tokens).size;
  if (tokens.heads == 0) return {q.batch, q.heads, q.tokens, size};
  const int64_t width = int64_t{q.heads} * size;
  if (width > std::numeric_limits<int>::max()) {
    refuse("the result would have rows of " + std::to_string(width) + ", which is beyond 32 bits");
  }
  return {q.batch, q.tokens, static_cast<int>(width)};
}

mx::array in_form_of(const LayerTokens& tokens, const mx::array& attended, mx::Stream stream) {
  if (tokens.heads == 0) return attended;
  return mx::reshape(mx::swapaxes(attended, 1, 2, stream), attended_shape(tokens), stream);
}

}  // namespace mlx_runners::lm
