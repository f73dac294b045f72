// Calls with caches but without programs, and plain attention to compare them with.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/lanes.h"
#include "lm/kv_cache.h"

namespace mlx_runners::testing {

inline constexpr int heads = 4;
inline constexpr int kv_heads = 2;
inline constexpr int head_size = 32;
inline constexpr int value_size = 64;
inline constexpr float scale = 0.2f;

/// A cache's layer for the tokens below.
inline lm::KvLayer layer_of(int window = 0) { return {kv_heads, head_size, value_size, window}; }

/// The same random queries, keys and values for the same seed.
class Sequence {
 public:
  Sequence(int length, uint64_t seed);

  /// [heads, head_size], [kv_heads, head_size] and [kv_heads, value_size] of a token.
  const float* q(int position) const { return q_.data() + position * heads * head_size; }
  const float* k(int position) const { return k_.data() + position * kv_heads * head_size; }
  const float* v(int position) const { return v_.data() + position * kv_heads * value_size; }

  /// What a query sees: [heads, value_size]; `window` as in a layer, and no position that is
  /// hidden.
  std::vector<double> attended(
      int position, int window = 0,
      const std::function<bool(int)>& hidden = [](int) { return false; }) const;

 private:
  std::vector<float> q_, k_, v_;
};

struct Token {
  const Sequence* of;
  int position;
};
std::vector<Token> tokens_of(const Sequence& sequence, int begin, int end);

/// A use of a layer by a method.
struct LayerUse {
  int layer = 0;
  int window = 0;
};

/// Results by use of a layer and token: [heads, value_size].
using Attended = std::vector<std::vector<std::vector<float>>>;

/// Makes calls on a lane of its own.
class Caller {
 public:
  /// Of tokens that follow each other, in a sequence cache of batch 1.
  Attended extend(lm::KvCache& cache, const std::vector<Token>& tokens,
                  const std::vector<LayerUse>& uses = {{}});
  /// Of tokens of sequences, in a cell cache.
  Attended step(lm::KvCache& cache, const std::vector<Token>& tokens,
                const std::vector<int>& sequences, const std::vector<LayerUse>& uses = {{}});

 private:
  Attended finish(lm::KvCache& cache, std::vector<int> sequences,
                  const std::function<lm::LayerTokens()>& build, const std::vector<LayerUse>& uses,
                  size_t count);

  Lane& lane_ = assign_lane();
};

void expect_attended(const std::vector<float>& actual, const std::vector<double>& expected,
                     double tolerance = 1e-5);

/// That body() throws a CodedError with this code.
void expect_refused(const std::string& code, const std::function<void()>& body);

}  // namespace mlx_runners::testing
