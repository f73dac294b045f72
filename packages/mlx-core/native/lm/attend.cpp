#include "lm/attend.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/scratch.h"

namespace mlx_runners::lm {
namespace {

constexpr int64_t gathered_floats = int64_t{8} << 20;  // 32 MiB of keys and values at a time
constexpr int piece = 64;                              // rows that a thread gathers at a time

void set_strides(int64_t* strides, int64_t heads, int64_t rows, int64_t size) {
  strides[0] = heads * rows * size;
  strides[1] = rows * size;
  strides[2] = size;
}

// A part of a run, and its place among all rows.
struct Piece {
  int slot;
  int count;
  int64_t place;
};

std::vector<Piece> pieces_of(std::span<const SlotRun> runs) {
  std::vector<Piece> pieces;
  int64_t place = 0;
  for (const auto& [begin, end] : runs) {
    for (int slot = begin; slot < end; slot += piece) {
      const int count = std::min(piece, end - slot);
      pieces.push_back({slot, count, place});
      place += count;
    }
  }
  return pieces;
}

// Heads [begin, end), counted over all of the batch, as [heads, rows, size].
void gather(const KvPool& pool, int64_t begin, int64_t end, const std::vector<Piece>& pieces,
            int64_t rows, float* to) {
  const auto count = static_cast<int64_t>(pieces.size());
  cpu::parallel_for((end - begin) * count, 4, [&](int64_t from, int64_t until) {
    for (int64_t i = from; i < until; ++i) {
      const int64_t head = i / count;
      const auto& [slot, length, place] = pieces[i % count];
      pool.read((begin + head) * pool.slots() + slot, length,
                to + (head * rows + place) * pool.size());
    }
  });
}

}  // namespace

void attend(cpu::Attention op, const KvPool& keys, const KvPool& values,
            std::span<const SlotRun> runs) {
  const int64_t batch = keys.batch();
  const int64_t heads = keys.heads();
  op.keys = 0;
  for (const auto& [begin, end] : runs) op.keys += end - begin;
  const bool two_in_place = runs.size() == 2 && op.queries <= cpu::kMaxDecodeQueries;
  if (keys.storage() == KvStorage::Float32 && (runs.size() == 1 || two_in_place)) {
    op.k = keys.floats() + runs[0].begin * op.dim;
    op.v = values.floats() + runs[0].begin * op.value_dim;
    set_strides(op.k_strides, heads, keys.slots(), op.dim);
    set_strides(op.v_strides, heads, values.slots(), op.value_dim);
    if (runs.size() == 1) return cpu::attention(op, batch);
    return cpu::ring_attention(op, batch, runs[0].end - runs[0].begin, runs[0].end - runs[1].begin);
  }
  const std::vector<Piece> pieces = pieces_of(runs);
  const int64_t head_floats = op.keys * (op.dim + op.value_dim);
  const int64_t at_once = std::clamp<int64_t>(gathered_floats / head_floats, 1, heads);
  const cpu::Scratch scratch(static_cast<size_t>(at_once * head_floats));
  const int64_t group = op.heads / heads;
  for (int64_t sequence = 0; sequence < batch; ++sequence) {
    for (int64_t first = 0; first < heads; first += at_once) {
      const int64_t count = std::min(at_once, heads - first);
      const int64_t head = sequence * heads + first;
      cpu::Attention part = op;
      part.q += sequence * op.q_strides[0] + first * group * op.q_strides[1];
      part.out += sequence * op.out_strides[0] + first * group * op.out_strides[1];
      part.heads = count * group;
      part.kv_heads = count;
      float* k = scratch.data();
      float* v = k + count * op.keys * op.dim;
      gather(keys, head, head + count, pieces, op.keys, k);
      gather(values, head, head + count, pieces, op.keys, v);
      part.k = k;
      part.v = v;
      set_strides(part.k_strides, count, op.keys, op.dim);
      set_strides(part.v_strides, count, op.keys, op.value_dim);
      cpu::attention(part, 1);
    }
  }
}

}  // namespace mlx_runners::lm
