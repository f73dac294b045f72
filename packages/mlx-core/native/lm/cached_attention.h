// What a layer of a cache does with a step's tokens: its memory gets them, and they attend.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lm/kv_cache.h"

namespace mlx_runners::lm {

// Where a step's tokens go, nowhere if they are there, and what they see, oldest first and
// themselves last; of all sequences.
struct SequenceSlots {
  std::vector<SlotRun> write;
  std::vector<SlotRun> read;
};

// Neighbouring tokens of a batch that belong to one sequence, and the cells that they see, by
// position and themselves last; in runs of neighbours.
struct CellGroup {
  int begin;
  int count;
  std::vector<SlotRun> cells;
  int window;  // what each sees of those; 0: all up to itself
};

// A step's tokens, [batch, T]: their positions, of which rotations are, and the rows of their first
// heads in the pools; no rows where they are there.
struct TokenPlaces {
  std::vector<int> positions;
  std::vector<int64_t> rows;
};

// So many positions; an array is computed for that. Throws CodedError "SHAPE".
std::vector<int> positions_of(const IntOrArray& position, int count, mx::Stream stream);

void append_arrays(const KvPools& pools, std::vector<mx::array>& arrays);

// On the CPU: one primitive, which writes into the pools. `position` is the first token's.
mx::array attention_in_place(const LayerTokens& tokens, int position,
                             std::shared_ptr<KvPools> pools, SequenceSlots slots,
                             mx::Stream stream);

// The same of a batch of tokens, each with a cell of its own.
mx::array cell_attention_in_place(const LayerTokens& tokens, TokenPlaces places,
                                  std::shared_ptr<KvPools> pools, std::vector<CellGroup> groups,
                                  mx::Stream stream);

// In MLX's ops, on any device; tokens are split and rotated. Also returns the pools afterwards,
// which have at least `needed` slots.
std::pair<mx::array, std::shared_ptr<KvPools>> composed_attention(const LayerTokens& tokens,
                                                                  const KvPools& pools, int needed,
                                                                  const SequenceSlots& slots,
                                                                  mx::Stream stream);

std::pair<mx::array, std::shared_ptr<KvPools>> composed_cell_attention(
    const LayerTokens& tokens, const KvPools& pools, int needed, const std::vector<int>& cells,
    const std::vector<CellGroup>& groups, mx::Stream stream);

}  // namespace mlx_runners::lm
