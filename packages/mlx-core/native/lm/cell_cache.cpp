#include "lm/cell_cache.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/errors.h"
#include "lm/cached_attention.h"

namespace mlx_runners::lm {
namespace {

constexpr int initial_cells = 512;

[[noreturn]] void refuse(const std::string& message) { throw CodedError("SHAPE", message); }

std::vector<SlotRun> runs_of(const std::vector<int>& cells) {
  std::vector<SlotRun> runs;
  for (const int cell : cells) {
    if (!runs.empty() && runs.back().end == cell)
      ++runs.back().end;
    else
      runs.push_back({cell, cell + 1});
  }
  return runs;
}

}  // namespace

class CellCache::Step final : public KvStep {
 public:
  Step(CellCache& cache, std::vector<int> sequences)
      : KvStep(cache), cache_(cache), sequences_(std::move(sequences)) {}

 protected:
  void keep() override {
    std::lock_guard lock(cache_.mutex_);
    cache_.table_.commit(*plan_);
    cache_.free_cells_ = cache_.table_.free_cells();
  }

  mx::array attend_checked(const LayerTokens& tokens, bool again, mx::Stream stream) override {
    const auto [batch, heads, count, size] = k_sizes(tokens);
    if (count != 1) {
      refuse(
          "the batch of a cell cache are tokens: q, k and v have to be [tokens, heads, 1, size]");
    }
    if (static_cast<size_t>(batch) != sequences_.size()) {
      refuse("the call names the sequences of " + std::to_string(sequences_.size()) +
             " tokens, and the method's batch has " + std::to_string(batch));
    }
    if (!plan_) {
      const auto positions =
          positions_of(tokens.position, static_cast<int>(sequences_.size()), stream);
      plan_ = cache_.table_.plan(sequences_, positions);
    }
    const std::vector<CellGroup>& groups = groups_for(tokens.window);
    int end = 0;
    for (const auto& token : *plan_) end = std::max(end, token.cell + 1);
    if (cache_.composes(stream)) {
      std::vector<int> written;
      for (const auto& token : *plan_) {
        if (!again) written.push_back(token.cell);
      }
      auto [attended, pools] =
          composed_cell_attention(tokens, *pools_of(tokens.layer),
                                  cache_.slots_for(tokens.layer, end), written, groups, stream);
      compose(tokens.layer, std::move(pools));
      return attended;
    }
    cache_.reserve(tokens.layer, end);
    TokenPlaces places;
    for (const auto& token : *plan_) {
      places.positions.push_back(token.position);
      // All sequences are in one batch of a pool, so that a cell is its first head's row.
      if (!again) places.rows.push_back(token.cell);
    }
    return cell_attention_in_place(tokens, std::move(places), pools_of(tokens.layer), groups,
                                   stream);
  }

 private:
  // The same for all layers of a window.
  const std::vector<CellGroup>& groups_for(int window) {
    const auto found = std::ranges::find(groups_, window, &decltype(groups_)::value_type::first);
    if (found != groups_.end()) return found->second;
    groups_.emplace_back(window, make_groups(window));
    return groups_.back().second;
  }

  // Neighbouring tokens of one sequence attend together.
  std::vector<CellGroup> make_groups(int window) const {
    std::vector<CellGroup> groups;
    const auto& plan = *plan_;
    for (size_t begin = 0; begin < plan.size();) {
      const int sequence = plan[begin].sequence;
      std::vector<int> cells = cache_.table_.cells_of(sequence);
      for (size_t i = 0; i < begin; ++i) {
        if (plan[i].sequence == sequence) cells.push_back(plan[i].cell);
      }
      size_t end = begin;
      const bool gaps = static_cast<int>(cells.size()) != plan[begin].position;
      do {
        cells.push_back(plan[end].cell);
        ++end;
        // Windows count positions: where some are missing, each token sees other cells.
      } while (end < plan.size() && plan[end].sequence == sequence && !(gaps && window > 0));
      if (window > 0) {
        const int first = plan[begin].position - window + 1;
        const auto before = [&](int cell) { return position_of(cell) < first; };
        cells.erase(cells.begin(), std::ranges::partition_point(cells, before));
      }
      groups.push_back({static_cast<int>(begin), static_cast<int>(end - begin), runs_of(cells),
                        gaps ? 0 : window});
      begin = end;
    }
    return groups;
  }

  int position_of(int cell) const {
    const auto planned = std::ranges::find(*plan_, cell, &CellTable::Token::cell);
    return planned != plan_->end() ? planned->position : cache_.table_.position(cell);
  }

  CellCache& cache_;
  const std::vector<int> sequences_;
  std::optional<std::vector<CellTable::Token>> plan_;
  std::vector<std::pair<int, std::vector<CellGroup>>> groups_;
};

CellCache::CellCache(std::vector<KvLayer> layers, KvStorage storage, int cells)
    : KvCache(std::move(layers), storage), cells_(cells), table_(cells), free_cells_(cells) {
  for (size_t i = 0; i < this->layers().size(); ++i) {
    put(i, make_pools(i, 1, std::min(initial_cells, cells)));
  }
}

template <class Change>
auto CellCache::change(Change&& change) {
  const Use use(*this);
  std::lock_guard lock(mutex_);
  struct Counted {
    CellCache& cache;
    ~Counted() { cache.free_cells_ = cache.table_.free_cells(); }
  } counted{*this};
  return change();
}

int CellCache::open() {
  return change([&] { return table_.open(); });
}

void CellCache::close(int sequence) {
  change([&] { table_.close(sequence); });
}

int CellCache::length(int sequence) const {
  std::lock_guard lock(mutex_);
  return table_.length(sequence);
}

int CellCache::fork(int sequence, int length) {
  return change([&] { return table_.fork(sequence, length); });
}

void CellCache::remove(int sequence, int from, int to) {
  change([&] { table_.remove(sequence, from, to); });
}

std::unique_ptr<KvStep> CellCache::begin(std::vector<int> sequences) {
  if (sequences.empty()) {
    throw CodedError("USAGE", "a call with a cell cache has to name the sequences of its tokens");
  }
  return std::make_unique<Step>(*this, std::move(sequences));
}

int CellCache::slots_for(size_t layer, int end) const {
  int64_t wanted = pools(layer).keys.slots();
  while (wanted < end) wanted *= 2;
  return static_cast<int>(std::min<int64_t>(wanted, cells_));
}

void CellCache::reserve(size_t layer, int end) {
  const int slots = slots_for(layer, end);
  if (slots > pools(layer).keys.slots()) grow(layer, slots, table_.end());
}

}  // namespace mlx_runners::lm
