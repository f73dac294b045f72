#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/scratch.h"

namespace mlx_runners::cpu {
namespace {

// Up to this number of queries keys and values are read in place: packing them wouldn't pay.
constexpr int64_t kTilesPerBlock = 8;
constexpr int64_t kPackedFloats = int64_t{2} << 20;  // 8 MiB of packed keys and values at a time

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Leaves out the keys at the start that lie before the first query's window: those of a long cache
/// are not even read. Not when some query may see no key and averages all values.
Attention without_unseen_keys(const Attention& op) {
  Attention seen = op;
  const bool sees_nothing =
      op.mask_kind == MaskKind::kBoolean || (op.causal && op.keys < op.queries);
  const int64_t unseen = op.keys - op.queries - op.window + 1;
  if (op.window == 0 || sees_nothing || unseen <= 0) {
    return seen;
  }
  seen.k += unseen * op.k_strides[2];
  seen.v += unseen * op.v_strides[2];
  seen.keys -= unseen;
  if (op.mask_kind == MaskKind::kAdditive) {
    seen.mask = static_cast<const float*>(op.mask) + unseen * op.mask_strides[3];
  }
  return seen;
}

// ---- decode ----

/// Brings the partial results of one kv head's splits together and writes its output rows.
void combine(const Attention& op, int64_t batch, int64_t kv_head, int64_t splits,
             const float* partials) {
  const int64_t group = op.heads / op.kv_heads;
  const int64_t rows = group * op.queries;
  const int64_t row_floats = op.value_dim + 2;
  for (int64_t r = 0; r < rows; ++r) {
    const float* first = partials + r * row_floats;
    const int64_t split_floats = rows * row_floats;
    const int64_t head = kv_head * group + r / op.queries;
    const float sink =
        op.sinks != nullptr ? op.sinks[head] : -std::numeric_limits<float>::infinity();
    float max = sink;
    for (int64_t s = 0; s < splits; ++s) {
      max = std::max(max, first[s * split_floats + op.value_dim]);
    }
    float* out = op.out + batch * op.out_strides[0] + head * op.out_strides[1] +
                 r % op.queries * op.out_strides[2];
    float sum = op.sinks != nullptr ? std::exp(sink - max) : 0.0f;
    std::fill(out, out + op.value_dim, 0.0f);
    for (int64_t s = 0; s < splits; ++s) {
      const float* part = first + s * split_floats;
      const float part_max = part[op.value_dim];
      const float factor = part_max == max ? 1.0f : std::exp(part_max - max);
      sum += factor * part[op.value_dim + 1];
      for (int64_t d = 0; d < op.value_dim; ++d) {
        out[d] += factor * part[d];
      }
    }
    const float scale = 1.0f / sum;
    for (int64_t d = 0; d < op.value_dim; ++d) {
      out[d] *= scale;
    }
  }
}

/// Where the keys of a ring lie.
struct Ring {
  int64_t wrap;  // the first key that lies before its place
  int64_t slots;
};

/// k and v so that a key from `wrap` on is at its place.
Attention beyond_wrap(const Attention& op, const Ring& ring) {
  Attention wrapped = op;
  wrapped.k -= ring.slots * op.k_strides[2];
  wrapped.v -= ring.slots * op.v_strides[2];
  return wrapped;
}

/// Splits the keys so that every thread finds a few pieces, of at least one block of keys each
/// where no ring wraps.
void decode(const KernelTable& table, const Attention& op, int64_t batches, const Ring& ring) {
  const int64_t heads = batches * op.kv_heads;
  const int64_t key_blocks = ceil_div(op.keys, kDepth);
  const int64_t wanted = std::min(key_blocks, ceil_div(4 * int64_t{threads()}, heads));
  const int64_t split_keys = ceil_div(key_blocks, wanted) * kDepth;
  const int64_t first_splits = ceil_div(ring.wrap, split_keys);
  const int64_t splits = first_splits + ceil_div(op.keys - ring.wrap, split_keys);
  const Attention wrapped = beyond_wrap(op, ring);
  const int64_t rows = op.heads / op.kv_heads * op.queries;
  const int64_t partial = rows * (op.value_dim + 2);
  const Scratch partials(static_cast<size_t>(heads * splits * partial));
  const int64_t scratch_floats =
      kDotRows * kPackedRow + kDepth * int64_t{table.tile_columns} + rows * op.dim;
  parallel_for(heads * splits, 1, [&](int64_t index, int64_t) {
    const int64_t head = index / splits;
    const int64_t split = index % splits;
    const bool wraps = split >= first_splits;
    const int64_t begin =
        wraps ? ring.wrap + (split - first_splits) * split_keys : split * split_keys;
    const Scratch scratch(static_cast<size_t>(scratch_floats));
    table.attention_decode(wraps ? wrapped : op, head / op.kv_heads, head % op.kv_heads, begin,
                           std::min(begin + split_keys, wraps ? op.keys : ring.wrap),
                           partials.data() + index * partial, scratch.data());
  });
  parallel_for(heads, std::max<int64_t>(1, 16384 / (splits * partial)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t head = begin; head < end; ++head) {
                   combine(op, head / op.kv_heads, head % op.kv_heads, splits,
                           partials.data() + head * splits * partial);
                 }
               });
}

// ---- prefill ----

struct PackedHead {
  int64_t panels;  // of keys
  int64_t k_floats;
  int64_t floats;  // k and v
};

PackedHead packed_head(const KernelTable& table, const Attention& op) {
  const int64_t columns = table.tile_columns;
  const int64_t panels = ceil_div(op.keys, columns);
  const int64_t k_floats = panels * columns * op.dim;
  return {panels, k_floats, k_floats + ceil_div(op.value_dim, columns) * columns * op.keys};
}

/// Packs kv heads [begin, end), counted over all batches. The panels of a head's keys are pieces
/// of their own, its values one more.
void pack_heads(const KernelTable& table, const Attention& op, const PackedHead& head,
                int64_t begin, int64_t end, float* packed) {
  const int64_t pieces = head.panels + 1;
  parallel_for((end - begin) * pieces, 16, [&](int64_t from, int64_t to) {
    for (int64_t index = from; index < to; ++index) {
      const int64_t kv = begin + index / pieces;
      const int64_t batch = kv / op.kv_heads;
      const int64_t kv_head = kv % op.kv_heads;
      const int64_t piece = index % pieces;
      float* target = packed + index / pieces * head.floats;
      if (piece < head.panels) {
        table.pack_columns(op.k + batch * op.k_strides[0] + kv_head * op.k_strides[1],
                           op.k_strides[2], op.keys, op.dim, piece, piece + 1, target);
      } else {
        table.pack_values(op.v + batch * op.v_strides[0] + kv_head * op.v_strides[1],
                          op.v_strides[2], op.keys, op.value_dim, target + head.k_floats);
      }
    }
  });
}

int64_t prefill_scratch(const KernelTable& table, const Attention& op, int64_t rows) {
  const int64_t panel = int64_t{table.tile_rows} * kPackedRow;
  const int64_t out_row = ceil_div(op.value_dim, table.tile_columns) * table.tile_columns;
  return ceil_div(rows, table.tile_rows) * ceil_div(op.dim, kDepth) * panel + panel +
         rows * (out_row + 2);
}

void prefill(const KernelTable& table, const Attention& op, int64_t batches) {
  const int64_t all_heads = batches * op.kv_heads;
  const int64_t group = op.heads / op.kv_heads;
  const PackedHead head = packed_head(table, op);
  const int64_t at_once = std::clamp<int64_t>(kPackedFloats / head.floats, 1, all_heads);
  const Scratch packed(static_cast<size_t>(at_once * head.floats));
  const int64_t tiles = ceil_div(op.queries, table.tile_rows);
  const int64_t block =
      table.tile_rows *
      std::clamp<int64_t>(tiles * batches * op.heads / (4 * int64_t{threads()}), 1, kTilesPerBlock);
  const int64_t blocks = ceil_div(op.queries, block);
  for (int64_t first = 0; first < all_heads; first += at_once) {
    const int64_t last = std::min(first + at_once, all_heads);
    pack_heads(table, op, head, first, last, packed.data());
    parallel_for((last - first) * group * blocks, 1, [&](int64_t index, int64_t) {
      const int64_t kv = first + index / (group * blocks);
      const int64_t begin = index % blocks * block;
      const float* k = packed.data() + (kv - first) * head.floats;
      const Scratch scratch(static_cast<size_t>(prefill_scratch(table, op, block)));
      table.attention_prefill(
          op, kv / op.kv_heads, kv % op.kv_heads * group + index / blocks % group, begin,
          std::min(begin + block, op.queries), k, k + head.k_floats, scratch.data());
    });
  }
}

// ---- rings ----

/// Rows [begin, end) of the keys or values of a head in their order.
void copy_rows(const float* from, int64_t step, int64_t size, int64_t begin, int64_t end,
               const Ring& ring, float* to) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t place = row < ring.wrap ? row : row - ring.slots;
    std::copy_n(from + place * step, size, to + row * size);
  }
}

/// Copies keys and values [batches, kv_heads, keys, …] in their order to `to`, and has op read them
/// there.
Attention in_order(const Attention& op, int64_t batches, const Ring& ring, float* to) {
  float* values = to + batches * op.kv_heads * op.keys * op.dim;
  constexpr int64_t kRows = 64;
  const int64_t pieces = ceil_div(op.keys, kRows);
  parallel_for(batches * op.kv_heads * pieces, 4, [&](int64_t from, int64_t until) {
    for (int64_t i = from; i < until; ++i) {
      const int64_t kv = i / pieces;
      const int64_t batch = kv / op.kv_heads;
      const int64_t head = kv % op.kv_heads;
      const int64_t begin = i % pieces * kRows;
      const int64_t end = std::min(begin + kRows, op.keys);
      copy_rows(op.k + batch * op.k_strides[0] + head * op.k_strides[1], op.k_strides[2], op.dim,
                begin, end, ring, to + kv * op.keys * op.dim);
      copy_rows(op.v + batch * op.v_strides[0] + head * op.v_strides[1], op.v_strides[2],
                op.value_dim, begin, end, ring, values + kv * op.keys * op.value_dim);
    }
  });
  Attention ordered = op;
  const auto lie_at = [&](const float*& data, int64_t* strides, float* rows, int64_t size) {
    data = rows;
    strides[0] = op.kv_heads * op.keys * size;
    strides[1] = op.keys * size;
    strides[2] = size;
  };
  lie_at(ordered.k, ordered.k_strides, to, op.dim);
  lie_at(ordered.v, ordered.v_strides, values, op.value_dim);
  return ordered;
}

}  // namespace

void attention(const Attention& op, int64_t batches) {
  const Attention seen = without_unseen_keys(op);
  if (op.queries <= kMaxDecodeQueries) {
    decode(kernels(), seen, batches, {seen.keys, seen.keys});
  } else {
    prefill(kernels(), seen, batches);
  }
}

void ring_attention(const Attention& op, int64_t batches, int64_t wrap, int64_t slots) {
  if (op.queries <= kMaxDecodeQueries) {
    return decode(kernels(), op, batches, {wrap, slots});
  }
  const Scratch copy(
      static_cast<size_t>(batches * op.kv_heads * op.keys * (op.dim + op.value_dim)));
  prefill(kernels(), in_order(op, batches, {wrap, slots}, copy.data()), batches);
}

}  // namespace mlx_runners::cpu
