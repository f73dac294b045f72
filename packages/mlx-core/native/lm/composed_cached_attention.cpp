// The composed form of caches' attention, for devices without kernels of our own.
#include <algorithm>

#include "kernels/cpu/primitives.h"
#include "lm/cached_attention.h"
#include "mlx/ops.h"

namespace mlx_runners::lm {
namespace {

// Slots [begin, end) of an array [batch, heads, slots, width].
mx::array slots_of(const mx::array& x, const SlotRun& run, mx::Stream stream) {
  return mx::slice(x, {0, 0, run.begin, 0}, {x.shape(0), x.shape(1), run.end, x.shape(3)}, stream);
}

// Keys or values in the form of the storage.
std::vector<mx::array> stored(const mx::array& x, KvStorage storage, mx::Stream stream) {
  switch (storage) {
    case KvStorage::Float32:
      return {x};
    case KvStorage::Float16:
      return {mx::astype(x, mx::float16, stream)};
    case KvStorage::BFloat16:
      return {mx::astype(x, mx::bfloat16, stream)};
    default:
      break;
  }
  std::vector<mx::array> arrays =
      mx::quantize(x, quantized_group, bits_of(storage), "affine", std::nullopt, stream);
  for (size_t i = 1; i < arrays.size(); ++i) arrays[i] = mx::astype(arrays[i], mx::float16, stream);
  return arrays;
}

mx::array restored(const std::vector<mx::array>& arrays, KvStorage storage, mx::Stream stream) {
  if (!is_quantized(storage)) return mx::astype(arrays[0], mx::float32, stream);
  return mx::dequantize(arrays[0], mx::astype(arrays[1], mx::float32, stream),
                        mx::astype(arrays[2], mx::float32, stream), quantized_group,
                        bits_of(storage), "affine", std::nullopt, std::nullopt, stream);
}

mx::array grown(const mx::array& x, int slots, mx::Stream stream) {
  if (x.shape(2) >= slots) return x;
  const mx::array more =
      mx::zeros({x.shape(0), x.shape(1), slots - x.shape(2), x.shape(3)}, x.dtype(), stream);
  return x.shape(2) == 0 ? more : mx::concatenate({x, more}, 2, stream);
}

mx::array written(mx::array pool, const mx::array& x, const std::vector<SlotRun>& runs,
                  mx::Stream stream) {
  int done = 0;
  for (const SlotRun& run : runs) {
    const int count = run.end - run.begin;
    const mx::Shape start{0, 0, run.begin, 0};
    const mx::Shape stop{pool.shape(0), pool.shape(1), run.end, pool.shape(3)};
    pool = mx::slice_update(pool, slots_of(x, {done, done + count}, stream), start, stop, stream);
    done += count;
  }
  return pool;
}

// A pool of so many slots with x written to it by write(pool array, x).
template <class Write>
KvPool updated(const KvPool& pool, int slots, const mx::array& x, mx::Stream stream,
               Write&& write) {
  const std::vector<mx::array> rows = stored(x, pool.storage(), stream);
  std::vector<mx::array> arrays;
  for (size_t i = 0; i < rows.size(); ++i) {
    // Row by row also where it is x as a whole.
    arrays.push_back(
        mx::contiguous(write(grown(pool.arrays()[i], slots, stream), rows[i]), false, stream));
  }
  return KvPool(pool.storage(), pool.size(), std::move(arrays));
}

// x [tokens, heads, 1, width], each token to its cell.
mx::array written_to_cells(const mx::array& pool, const mx::array& x, const std::vector<int>& cells,
                           mx::Stream stream) {
  const mx::array places(cells.begin(), {static_cast<int>(cells.size())}, mx::int32);
  const mx::array updates = mx::reshape(x, {x.shape(0), 1, x.shape(1), 1, x.shape(3)}, stream);
  return mx::scatter(pool, {places}, updates, {2}, stream);
}

mx::array taken(const KvPool& pool, const mx::array& cells, mx::Stream stream) {
  std::vector<mx::array> arrays;
  for (const mx::array& array : pool.arrays()) {
    arrays.push_back(mx::take(array, cells, 2, stream));
  }
  return restored(arrays, pool.storage(), stream);
}

mx::array cells_in(const std::vector<SlotRun>& runs) {
  std::vector<int> cells;
  for (const auto& [begin, end] : runs) {
    for (int cell = begin; cell < end; ++cell) cells.push_back(cell);
  }
  return mx::array(cells.begin(), {static_cast<int>(cells.size())}, mx::int32);
}

mx::array read(const KvPool& pool, const std::vector<SlotRun>& runs, mx::Stream stream) {
  std::vector<mx::array> arrays;
  for (const mx::array& array : pool.arrays()) {
    std::vector<mx::array> parts;
    for (const SlotRun& run : runs) parts.push_back(slots_of(array, run, stream));
    arrays.push_back(parts.size() == 1 ? parts[0] : mx::concatenate(parts, 2, stream));
  }
  return restored(arrays, pool.storage(), stream);
}

}  // namespace

std::pair<mx::array, std::shared_ptr<KvPools>> composed_attention(const LayerTokens& tokens,
                                                                  const KvPools& pools, int needed,
                                                                  const SequenceSlots& slots,
                                                                  mx::Stream stream) {
  const auto write = [&](mx::array pool, const mx::array& x) {
    return written(std::move(pool), x, slots.write, stream);
  };
  auto after =
      std::make_shared<KvPools>(KvPools{updated(pools.keys, needed, tokens.k, stream, write),
                                        updated(pools.values, needed, tokens.v, stream, write)});
  const mx::array attended = cpu::attention(
      tokens.q, read(after->keys, slots.read, stream), read(after->values, slots.read, stream),
      tokens.scale, "causal", std::nullopt, std::nullopt, tokens.window, tokens.softcap, stream);
  return {attended, std::move(after)};
}

std::pair<mx::array, std::shared_ptr<KvPools>> composed_cell_attention(
    const LayerTokens& tokens, const KvPools& pools, int needed, const std::vector<int>& cells,
    const std::vector<CellGroup>& groups, mx::Stream stream) {
  const auto write = [&](const mx::array& pool, const mx::array& x) {
    return cells.empty() ? pool : written_to_cells(pool, x, cells, stream);
  };
  auto after =
      std::make_shared<KvPools>(KvPools{updated(pools.keys, needed, tokens.k, stream, write),
                                        updated(pools.values, needed, tokens.v, stream, write)});
  std::vector<mx::array> parts;
  for (const CellGroup& group : groups) {
    const mx::array q =
        mx::slice(tokens.q, {group.begin, 0, 0, 0},
                  {group.begin + group.count, tokens.q.shape(1), 1, tokens.q.shape(3)}, stream);
    const mx::array seen = cells_in(group.cells);
    const mx::array attended =
        cpu::attention(mx::swapaxes(q, 0, 2, stream), taken(after->keys, seen, stream),
                       taken(after->values, seen, stream), tokens.scale, "causal", std::nullopt,
                       std::nullopt, group.window, tokens.softcap, stream);
    parts.push_back(mx::swapaxes(attended, 0, 2, stream));
  }
  const mx::array attended = parts.size() == 1 ? parts[0] : mx::concatenate(parts, 0, stream);
  return {attended, std::move(after)};
}

}  // namespace mlx_runners::lm
