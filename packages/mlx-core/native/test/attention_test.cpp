// Attention on arrays between forbidden pages, against a plain loop in double.
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "guarded.h"
#include "harness.h"

using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

/// Elements of [batches, heads, positions, dim], laid out so or with heads inside of positions.
struct Heads {
  Heads(int64_t batches, int64_t heads, int64_t positions, int64_t dim, std::mt19937_64& random)
      : array(static_cast<size_t>(batches * heads * positions * dim), random) {
    const bool heads_inside = draw(random, 0, 1) == 1;
    strides = {heads * positions * dim, heads_inside ? dim : positions * dim,
               heads_inside ? heads * dim : dim};
  }
  float* at(int64_t batch, int64_t head, int64_t position) const {
    return array.data() + batch * strides[0] + head * strides[1] + position * strides[2];
  }
  Guarded<float> array;
  std::array<int64_t, 3> strides;
};

/// A mask of random kind, of which some axes are broadcast. MLX takes a mask or "causal", not both.
struct Mask {
  Mask(Attention& op, int64_t batches, std::mt19937_64& random) {
    op.mask_kind = std::array{MaskKind::kNone, MaskKind::kAdditive,
                              MaskKind::kBoolean}[static_cast<size_t>(draw(random, 0, 2))];
    op.causal = op.mask_kind == MaskKind::kNone && draw(random, 0, 1) == 1;
    if (op.mask_kind == MaskKind::kNone) return;
    const std::array<int64_t, 4> shape{batches, op.heads, op.queries, op.keys};
    int64_t size = 1;
    for (int axis = 3; axis >= 0; --axis) {
      const bool broadcast = draw(random, 0, 2) == 0;
      op.mask_strides[axis] = broadcast ? 0 : size;
      if (!broadcast) size *= shape[static_cast<size_t>(axis)];
    }
    if (op.mask_kind == MaskKind::kAdditive) {
      numbers = std::make_unique<Guarded<float>>(static_cast<size_t>(size), random);
      fill_numbers(*numbers, random, 3.0f);
      op.mask = numbers->data();
    } else {
      flags = std::make_unique<Guarded<uint8_t>>(static_cast<size_t>(size), random);
      for (uint8_t& flag : *flags) flag = draw(random, 0, 3) > 0;
      op.mask = flags->data();
    }
  }
  std::unique_ptr<Guarded<float>> numbers;
  std::unique_ptr<Guarded<uint8_t>> flags;
};

double score(const Attention& op, int64_t batch, int64_t head, int64_t query, int64_t key,
             const float* q, const float* k) {
  double sum = 0;
  for (int64_t d = 0; d < op.dim; ++d) sum += double{q[d]} * k[d];
  sum *= op.scale;
  const int64_t at = batch * op.mask_strides[0] + head * op.mask_strides[1] +
                     query * op.mask_strides[2] + key * op.mask_strides[3];
  if (op.softcap > 0) sum = op.softcap * std::tanh(sum / op.softcap);
  // As MLX: the lowest finite number hides a key, so that a query without keys averages all.
  constexpr double kHidden = -3.4e38;
  const int64_t position = query + op.keys - op.queries;
  if (op.causal && key > position) sum = kHidden;
  if (op.mask_kind == MaskKind::kAdditive) sum += static_cast<const float*>(op.mask)[at];
  if (op.mask_kind == MaskKind::kBoolean && !static_cast<const uint8_t*>(op.mask)[at]) {
    sum = kHidden;
  }
  if (op.window > 0 && key <= position - op.window) sum = kHidden;
  return sum;
}

void check_attention(int64_t queries, std::mt19937_64& random) {
  use_kernels(random);
  const int64_t batches = draw(random, 1, 2);
  const int64_t group = draw(random, 1, 3);
  Attention op{};
  op.kv_heads = draw(random, 1, 3);
  op.heads = op.kv_heads * group;
  op.queries = queries;
  op.keys = draw_size(random, 40, 600);
  op.dim = draw_size(random, 70, 300);
  op.value_dim = draw_size(random, 70, 300);
  op.scale = 1.0f / std::sqrt(static_cast<float>(op.dim));
  const Heads q(batches, op.heads, op.queries, op.dim, random);
  const Heads k(batches, op.kv_heads, op.keys, op.dim, random);
  const Heads v(batches, op.kv_heads, op.keys, op.value_dim, random);
  const Heads out(batches, op.heads, op.queries, op.value_dim, random);
  for (const auto* part : {&q, &k, &v}) fill_numbers(part->array, random);
  const Mask mask(op, batches, random);
  if (draw(random, 0, 2) == 0) op.window = draw_size(random, 40, 300);
  if (draw(random, 0, 3) == 0) op.softcap = 1.5f;
  const Guarded<float> sinks(static_cast<size_t>(op.heads), random);
  fill_numbers(sinks, random, 4.0f);
  if (draw(random, 0, 2) == 0) op.sinks = sinks.data();
  op.q = q.array.data();
  op.k = k.array.data();
  op.v = v.array.data();
  op.out = out.array.data();
  std::copy_n(q.strides.begin(), 3, op.q_strides);
  std::copy_n(k.strides.begin(), 3, op.k_strides);
  std::copy_n(v.strides.begin(), 3, op.v_strides);
  std::copy_n(out.strides.begin(), 3, op.out_strides);
  attention(op, batches);

  for (int sample = 0; sample < 6; ++sample) {
    const int64_t batch = draw(random, 0, batches - 1);
    const int64_t head = draw(random, 0, op.heads - 1);
    const int64_t query = sample == 0 ? op.queries - 1 : draw(random, 0, op.queries - 1);
    std::vector<double> weights;
    for (int64_t key = 0; key < op.keys; ++key) {
      weights.push_back(score(op, batch, head, query, key, q.at(batch, head, query),
                              k.at(batch, head / group, key)));
    }
    double most = *std::max_element(weights.begin(), weights.end());
    if (op.sinks != nullptr) most = std::max<double>(most, op.sinks[head]);
    double sum = op.sinks != nullptr ? std::exp(op.sinks[head] - most) : 0;
    for (double& weight : weights) sum += weight = std::exp(weight - most);
    for (int64_t d = 0; d < op.value_dim; ++d) {
      double expected = 0;
      for (int64_t key = 0; key < op.keys; ++key) {
        expected += weights[static_cast<size_t>(key)] / sum * v.at(batch, head / group, key)[d];
      }
      expect_near(out.at(batch, head, query)[d], expected, 1e-5, "attention");
    }
  }
}

/// The same keys and values in a ring and in their order give the same.
void check_ring(int64_t queries, std::mt19937_64& random) {
  use_kernels(random);
  const int64_t batches = draw(random, 1, 2);
  const int64_t slots = std::max<int64_t>(2, draw_size(random, 40, 600));
  Attention op{};
  op.kv_heads = draw(random, 1, 3);
  op.heads = op.kv_heads * draw(random, 1, 3);
  op.queries = std::min(queries, slots);
  op.keys = draw(random, std::max<int64_t>(2, op.queries), slots);
  op.dim = draw_size(random, 70, 300);
  op.value_dim = draw_size(random, 70, 300);
  op.scale = 1.0f / std::sqrt(static_cast<float>(op.dim));
  op.causal = true;
  op.window = draw(random, 0, 1) * draw(random, 1, op.keys);
  // Of a window, all that the first query sees, as ring_attention leaves nothing out itself.
  if (op.window > 0) op.window = std::max(op.window, op.keys - op.queries + 1);
  const Heads q(batches, op.heads, op.queries, op.dim, random);
  const Heads k(batches, op.kv_heads, op.keys, op.dim, random);
  const Heads v(batches, op.kv_heads, op.keys, op.value_dim, random);
  const Heads ring_k(batches, op.kv_heads, slots, op.dim, random);
  const Heads ring_v(batches, op.kv_heads, slots, op.value_dim, random);
  const Heads out(batches, op.heads, op.queries, op.value_dim, random);
  for (const auto* part : {&q, &k, &v, &ring_k, &ring_v}) fill_numbers(part->array, random);
  const int64_t wrap = draw(random, 1, op.keys - 1);
  const int64_t first = slots - wrap;
  for (int64_t i = 0; i < batches * op.kv_heads * op.keys; ++i) {
    const int64_t batch = i / (op.kv_heads * op.keys);
    const int64_t head = i / op.keys % op.kv_heads;
    const int64_t key = i % op.keys;
    const int64_t slot = (first + key) % slots;
    std::copy_n(k.at(batch, head, key), op.dim, ring_k.at(batch, head, slot));
    std::copy_n(v.at(batch, head, key), op.value_dim, ring_v.at(batch, head, slot));
  }
  const auto set = [&op](const Heads& keys, const Heads& values, int64_t at) {
    op.k = keys.at(0, 0, at);
    op.v = values.at(0, 0, at);
    std::copy_n(keys.strides.begin(), 3, op.k_strides);
    std::copy_n(values.strides.begin(), 3, op.v_strides);
  };
  op.q = q.array.data();
  op.out = out.array.data();
  std::copy_n(q.strides.begin(), 3, op.q_strides);
  std::copy_n(out.strides.begin(), 3, op.out_strides);
  set(k, v, 0);
  attention(op, batches);
  const std::vector<float> expected(out.array.begin(), out.array.end());
  std::fill(out.array.begin(), out.array.end(), 0.0f);
  set(ring_k, ring_v, first);
  ring_attention(op, batches, wrap, slots);
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_near(out.array.begin()[i], expected[i], 1e-5, "ring attention");
  }
}

}  // namespace

TEST("attention of few queries") {
  require_level();
  random_cases(150, [](std::mt19937_64& random) { check_attention(draw(random, 1, 8), random); });
}

TEST("attention of many queries") {
  require_level();
  random_cases(100, [](std::mt19937_64& random) {
    check_attention(8 + draw_size(random, 30, 120), random);
  });
}

TEST("attention over a ring") {
  require_level();
  random_cases(60, [](std::mt19937_64& random) { check_ring(draw(random, 1, 30), random); });
}
