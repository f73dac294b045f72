#include "lm/cached_attention.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "core/errors.h"
#include "kernels/cpu/attention_operands.h"
#include "kernels/cpu/fused_primitive.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/rope.h"
#include "lm/attend.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/transforms.h"

namespace mlx_runners::lm {
namespace {

// Elements that a thread takes at a time: some microseconds of work.
constexpr int64_t piece = 16384;

// A step's tokens, and where they go.
struct Arrivals {
  cpu::HeadRows q, k, v;
  TokenPlaces places;
  std::shared_ptr<KvPools> pools;

  int64_t count() const { return k.batches * k.positions; }
  // Elements of a token.
  int64_t width() const { return q.heads * q.size + k.heads * (k.size + v.size); }
};

void write(const Arrivals& tokens, int64_t token, const float* keys, int64_t key_step) {
  const int64_t batch = token / tokens.k.positions;
  const float* values = tokens.v.at(batch, token % tokens.k.positions);
  KvPool& key_pool = tokens.pools->keys;
  KvPool& value_pool = tokens.pools->values;
  for (int64_t head = 0; head < tokens.k.heads; ++head) {
    const int64_t row = tokens.places.rows[token] + head * key_pool.slots();
    key_pool.write(row, keys + head * key_step);
    value_pool.write(row, values + head * tokens.v.strides[1]);
  }
}

template <class Each>
void for_each_token(const Arrivals& tokens, Each&& pieces) {
  const int64_t grain = std::max<int64_t>(1, piece / tokens.width());
  cpu::parallel_for(tokens.count(), grain, pieces);
}

// Keys and values into the pools.
void write_all(const Arrivals& tokens) {
  if (tokens.places.rows.empty()) return;
  for_each_token(tokens, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float* keys = tokens.k.at(token / tokens.k.positions, token % tokens.k.positions);
      write(tokens, token, keys, tokens.k.strides[1]);
    }
  });
}

// The same with keys rotated on their way, and queries to `q` [batch, T, heads, size].
void rotate_and_write_all(const Arrivals& tokens, const cpu::Rotation& rotation, float* q) {
  const cpu::Frequencies frequencies(rotation);
  for_each_token(tokens, [&](int64_t begin, int64_t end) {
    cpu::Angles angles(frequencies);
    const int64_t size = tokens.k.size;
    const cpu::Scratch keys(static_cast<size_t>(tokens.k.heads * size));
    for (int64_t token = begin; token < end; ++token) {
      const int64_t batch = token / tokens.k.positions;
      const int64_t position = token % tokens.k.positions;
      angles.set(tokens.places.positions[token]);
      angles.turn(tokens.q.at(batch, position), tokens.q.strides[1],
                  q + token * tokens.q.heads * size, size, tokens.q.heads, size);
      if (tokens.places.rows.empty()) continue;
      angles.turn(tokens.k.at(batch, position), tokens.k.strides[1], keys.data(), size,
                  tokens.k.heads, size);
      write(tokens, token, keys.data(), size);
    }
  });
}

// Puts a step's tokens into the pools and attends over what `attend` knows.
class CachedAttention final : public mx::UnaryPrimitive {
 public:
  using Attend = std::function<void(const cpu::Attention&, const KvPools&)>;

  CachedAttention(mx::Stream stream, const LayerTokens& tokens, TokenPlaces places,
                  std::shared_ptr<KvPools> pools, Attend attend)
      : UnaryPrimitive(stream),
        options_{tokens.scale, "causal", tokens.window, tokens.softcap},
        heads_(tokens.heads),
        kv_heads_(tokens.kv_heads),
        rotation_{tokens.rotation.dims, tokens.rotation.traditional,
                  tokens.rotation.base.value_or(0), nullptr, tokens.rotation.scale},
        places_(std::move(places)),
        pools_(std::move(pools)),
        attend_(std::move(attend)) {}
  DEFINE_NAME(CachedAttention)

  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override {
    const auto rows = [&](int i, int heads) {
      return cpu::HeadRows(cpu::contiguous_rows(inputs[i], stream()), heads);
    };
    Arrivals tokens{rows(0, heads_), rows(1, kv_heads_), rows(2, kv_heads_), places_, pools_};
    if (out.ndim() == 4) {
      cpu::allocate_heads_like(inputs[0], out);
    } else {
      cpu::allocate(out);
    }
    const cpu::Attention op =
        cpu::attention_operands(options_, tokens.q, tokens.k, tokens.v, cpu::HeadRows(out, heads_));
    cpu::Rotation rotation = rotation_;
    if (inputs.size() > 3) {
      rotation.freqs = cpu::row_contiguous(inputs[3], stream()).data<float>();
    }
    cpu::dispatch(stream(), [op, rotation, tokens = std::move(tokens), attend = attend_] {
      if (rotation.dims == 0) {
        write_all(tokens);
        return attend(op, *tokens.pools);
      }
      const cpu::Scratch q(static_cast<size_t>(tokens.count() * op.heads * op.dim));
      rotate_and_write_all(tokens, rotation, q.data());
      cpu::Attention rotated = op;
      rotated.q = q.data();
      rotated.q_strides[0] = op.queries * op.heads * op.dim;
      rotated.q_strides[1] = op.dim;
      rotated.q_strides[2] = op.heads * op.dim;
      attend(rotated, *tokens.pools);
    });
  }

  void eval_gpu(const std::vector<mx::array>&, mx::array&) override {
    throw std::runtime_error("[updateAndAttend] is a CPU kernel and has no GPU form.");
  }

 private:
  cpu::AttentionOptions options_;
  int heads_;
  int kv_heads_;
  cpu::Rotation rotation_;
  TokenPlaces places_;
  std::shared_ptr<KvPools> pools_;
  Attend attend_;
};

mx::array cached_attention(const LayerTokens& tokens, TokenPlaces places,
                           std::shared_ptr<KvPools> pools, CachedAttention::Attend attend,
                           mx::Stream stream) {
  std::vector<mx::array> inputs{tokens.q, tokens.k, tokens.v};
  if (tokens.rotation.freqs) inputs.push_back(*tokens.rotation.freqs);
  return mx::array(attended_shape(tokens), mx::float32,
                   std::make_shared<CachedAttention>(stream, tokens, std::move(places),
                                                     std::move(pools), std::move(attend)),
                   std::move(inputs));
}

TokenPlaces places_of(const LayerTokens& tokens, int position, const std::vector<SlotRun>& slots,
                      const KvPool& pool) {
  const auto [batch, heads, count, size] = k_sizes(tokens);
  TokenPlaces places;
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    for (int i = 0; i < count; ++i) places.positions.push_back(position + i);
    for (const auto& [begin, end] : slots) {
      for (int slot = begin; slot < end; ++slot) {
        places.rows.push_back(sequence * heads * pool.slots() + slot);
      }
    }
  }
  return places;
}

}  // namespace

std::vector<int> positions_of(const IntOrArray& position, int count, mx::Stream stream) {
  if (const int* number = std::get_if<int>(&position)) {
    if (count == 1) return {*number};
  } else if (const auto& given = std::get<mx::array>(position);
             given.size() == static_cast<size_t>(count) &&
             mx::issubdtype(given.dtype(), mx::integer)) {
    mx::array array = mx::contiguous(mx::astype(given, mx::int32, stream), false, stream);
    mx::eval(array);
    return {array.data<int32_t>(), array.data<int32_t>() + count};
  }
  throw CodedError("SHAPE", count == 1 ? "position has to be one integer"
                                       : "position has to be an array of " + std::to_string(count) +
                                             " integers");
}

void append_arrays(const KvPools& pools, std::vector<mx::array>& arrays) {
  for (const KvPool* pool : {&pools.keys, &pools.values}) {
    arrays.insert(arrays.end(), pool->arrays().begin(), pool->arrays().end());
  }
}

mx::array attention_in_place(const LayerTokens& tokens, int position,
                             std::shared_ptr<KvPools> pools, SequenceSlots slots,
                             mx::Stream stream) {
  TokenPlaces places = places_of(tokens, position, slots.write, pools->keys);
  const auto over_slots = [read = std::move(slots.read)](const cpu::Attention& op,
                                                         const KvPools& memory) {
    attend(op, memory.keys, memory.values, read);
  };
  return cached_attention(tokens, std::move(places), std::move(pools), over_slots, stream);
}

mx::array cell_attention_in_place(const LayerTokens& tokens, TokenPlaces places,
                                  std::shared_ptr<KvPools> pools, std::vector<CellGroup> groups,
                                  mx::Stream stream) {
  const auto over_cells = [groups = std::move(groups)](const cpu::Attention& op,
                                                       const KvPools& memory) {
    cpu::parallel_for(static_cast<int64_t>(groups.size()), 1, [&](int64_t index, int64_t) {
      const CellGroup& group = groups[index];
      // The batch's tokens are this sequence's positions.
      cpu::Attention part = op;
      part.q += group.begin * op.q_strides[0];
      part.out += group.begin * op.out_strides[0];
      part.q_strides[2] = op.q_strides[0];
      part.out_strides[2] = op.out_strides[0];
      part.queries = group.count;
      part.window = group.window;
      attend(part, memory.keys, memory.values, group.cells);
    });
  };
  return cached_attention(tokens, std::move(places), std::move(pools), over_cells, stream);
}

}  // namespace mlx_runners::lm
