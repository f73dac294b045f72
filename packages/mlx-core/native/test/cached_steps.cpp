#include "cached_steps.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/errors.h"
#include "harness.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"

namespace mlx_runners::testing {
namespace {

namespace mx = mlx::core;

std::vector<float> normal(size_t size, std::mt19937_64& random) {
  std::normal_distribution<float> distribution;
  std::vector<float> numbers(size);
  for (float& number : numbers) number = distribution(random);
  return numbers;
}

/// Rows of tokens, [tokens, count, size].
mx::array rows_of(const std::vector<Token>& tokens, const float* (Sequence::*row)(int) const,
                  int count, int size) {
  std::vector<float> numbers;
  for (const auto& [sequence, position] : tokens) {
    const float* first = (sequence->*row)(position);
    numbers.insert(numbers.end(), first, first + count * size);
  }
  return mx::array(numbers.begin(), {static_cast<int>(tokens.size()), count, size}, mx::float32);
}

}  // namespace

Sequence::Sequence(int length, uint64_t seed) {
  std::mt19937_64 random(seed);
  q_ = normal(size_t{heads * head_size} * length, random);
  k_ = normal(size_t{kv_heads * head_size} * length, random);
  v_ = normal(size_t{kv_heads * value_size} * length, random);
}

std::vector<double> Sequence::attended(int position, int window,
                                       const std::function<bool(int)>& hidden) const {
  std::vector<int> seen;
  for (int i = window > 0 ? std::max(0, position - window + 1) : 0; i <= position; ++i) {
    if (!hidden(i)) seen.push_back(i);
  }
  std::vector<double> result;
  for (int head = 0; head < heads; ++head) {
    const int kv_head = head / (heads / kv_heads);
    double sum = 0;
    std::vector<double> mean(value_size, 0.0);
    for (const int i : seen) {
      double dot = 0;
      for (int d = 0; d < head_size; ++d) {
        dot += double{q(position)[head * head_size + d]} * k(i)[kv_head * head_size + d];
      }
      const double weight = std::exp(dot * scale);
      sum += weight;
      for (int d = 0; d < value_size; ++d) mean[d] += weight * v(i)[kv_head * value_size + d];
    }
    for (const double each : mean) result.push_back(each / sum);
  }
  return result;
}

std::vector<Token> tokens_of(const Sequence& sequence, int begin, int end) {
  std::vector<Token> tokens;
  for (int position = begin; position < end; ++position) tokens.push_back({&sequence, position});
  return tokens;
}

Attended Caller::extend(lm::KvCache& cache, const std::vector<Token>& tokens,
                        const std::vector<LayerUse>& uses) {
  const auto build = [&] {
    // As a decoder gives them: [1, tokens, heads, size] with two axes exchanged.
    const auto rows = [&](auto row, int count, int size) {
      const mx::array x = mx::expand_dims(rows_of(tokens, row, count, size), 0, lane_.cpu);
      return mx::swapaxes(x, 1, 2, lane_.cpu);
    };
    return lm::LayerTokens{rows(&Sequence::q, heads, head_size),
                           rows(&Sequence::k, kv_heads, head_size),
                           rows(&Sequence::v, kv_heads, value_size),
                           tokens.front().position,
                           0,
                           scale,
                           0,
                           0};
  };
  return finish(cache, {}, build, uses, tokens.size());
}

Attended Caller::step(lm::KvCache& cache, const std::vector<Token>& tokens,
                      const std::vector<int>& sequences, const std::vector<LayerUse>& uses) {
  const auto build = [&] {
    const auto rows = [&](auto row, int count, int size) {
      return mx::expand_dims(rows_of(tokens, row, count, size), 2, lane_.cpu);
    };
    std::vector<int> positions;
    for (const Token& token : tokens) positions.push_back(token.position);
    return lm::LayerTokens{
        rows(&Sequence::q, heads, head_size),
        rows(&Sequence::k, kv_heads, head_size),
        rows(&Sequence::v, kv_heads, value_size),
        mx::array(positions.begin(), {static_cast<int>(positions.size())}, mx::int32),
        0,
        scale,
        0,
        0};
  };
  return finish(cache, sequences, build, uses, tokens.size());
}

Attended Caller::finish(lm::KvCache& cache, std::vector<int> sequences,
                        const std::function<lm::LayerTokens()>& build,
                        const std::vector<LayerUse>& uses, size_t count) {
  LaneLock lock(lane_, lane_.cpu);
  const bool in_batch = !sequences.empty();
  const auto step = cache.begin(std::move(sequences));
  lm::LayerTokens tokens = build();
  std::vector<mx::array> results;
  for (const auto& [layer, window] : uses) {
    tokens.layer = layer;
    tokens.window = window;
    const mx::array attended = step->attend(tokens, lane_.cpu);
    // Tokens first.
    const mx::array ordered = in_batch ? attended : mx::swapaxes(attended, 1, 2, lane_.cpu);
    results.push_back(mx::contiguous(ordered, false, lane_.cpu));
  }
  std::vector<mx::array> all = step->finish();
  all.insert(all.end(), results.begin(), results.end());
  mx::eval(all);
  step->commit();
  Attended rows;
  for (const mx::array& result : results) {
    auto& tokens_rows = rows.emplace_back();
    const float* data = result.data<float>();
    const size_t size = size_t{heads} * value_size;
    for (size_t i = 0; i < count; ++i, data += size) tokens_rows.emplace_back(data, data + size);
  }
  return rows;
}

void expect_attended(const std::vector<float>& actual, const std::vector<double>& expected,
                     double tolerance) {
  EXPECT_EQUAL(actual.size(), expected.size());
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    // NaN is the largest.
    if (!(difference <= error)) error = difference;
  }
  if (error <= tolerance) return;
  throw Failure("attention differs by " + std::to_string(error));
}

void expect_refused(const std::string& code, const std::function<void()>& body) {
  try {
    body();
  } catch (const CodedError& error) {
    EXPECT_EQUAL(std::string(error.code()), code);
    return;
  }
  throw Failure("it isn't refused with " + code);
}

}  // namespace mlx_runners::testing
