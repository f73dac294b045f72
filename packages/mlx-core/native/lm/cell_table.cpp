#include "lm/cell_table.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <unordered_set>

#include "core/errors.h"
#include "core/memory_limit.h"

namespace mlx_runners::lm {
namespace {

uint64_t bit_of(int sequence) { return uint64_t{1} << sequence; }

[[noreturn]] void refuse(const char* code, const std::string& message) {
  throw CodedError(code, message);
}

// Finds cells that nobody owns, and that it hasn't given away.
class FreeCells {
 public:
  explicit FreeCells(std::span<const uint64_t> owners) : owners_(owners) {}

  int after(int last) {
    if (last >= 0 && last + 1 < count() && is_free(last + 1)) return give(last + 1);
    for (; block_ + CellTable::block <= count(); block_ += CellTable::block) {
      if (is_free_block(block_)) return give(block_);
    }
    while (!is_free(lowest_)) ++lowest_;
    return give(lowest_);
  }

 private:
  int count() const { return static_cast<int>(owners_.size()); }
  bool is_free(int cell) const { return owners_[cell] == 0 && !given_.contains(cell); }
  bool is_free_block(int begin) const {
    for (int cell = begin; cell < begin + CellTable::block; ++cell) {
      if (!is_free(cell)) return false;
    }
    return true;
  }
  int give(int cell) {
    given_.insert(cell);
    return cell;
  }

  std::span<const uint64_t> owners_;
  std::unordered_set<int> given_;
  int block_ = 0;   // no block before it is free
  int lowest_ = 0;  // no cell before it is free
};

}  // namespace

CellTable::CellTable(int cells) : cells_of_(max_sequences), free_(cells) {
  if (cells < 1) refuse("USAGE", "a cell cache needs at least one cell");
  require_memory(static_cast<double>(cells) * (sizeof(owners_[0]) + sizeof(positions_[0])));
  owners_.assign(cells, 0);
  positions_.assign(cells, 0);
}

void CellTable::check(int sequence) const {
  if (sequence < 0 || sequence >= max_sequences || !(open_ & bit_of(sequence))) {
    refuse("USAGE", std::to_string(sequence) + " is none of the cache's open sequences");
  }
}

int CellTable::open() {
  const int sequence = std::countr_one(open_);
  if (sequence >= max_sequences) {
    refuse("USAGE", "a cell cache has at most " + std::to_string(max_sequences) +
                        " sequences at a time: close one first");
  }
  open_ |= bit_of(sequence);
  return sequence;
}

void CellTable::close(int sequence) {
  remove(sequence, 0, length(sequence));
  open_ &= ~bit_of(sequence);
}

int CellTable::length(int sequence) const {
  check(sequence);
  const auto& cells = cells_of_[sequence];
  return cells.empty() ? 0 : positions_[cells.back()] + 1;
}

const std::vector<int>& CellTable::cells_of(int sequence) const {
  check(sequence);
  return cells_of_[sequence];
}

int CellTable::fork(int sequence, int length) {
  const int whole = this->length(sequence);
  if (length < 0 || length > whole) {
    refuse("SHAPE", "a sequence of " + std::to_string(whole) + " tokens has no first " +
                        std::to_string(length));
  }
  const int forked = open();
  for (const int cell : cells_of_[sequence]) {
    if (positions_[cell] >= length) break;
    owners_[cell] |= bit_of(forked);
    cells_of_[forked].push_back(cell);
  }
  return forked;
}

void CellTable::remove(int sequence, int from, int to) {
  check(sequence);
  if (from < 0 || to < from) {
    refuse("SHAPE",
           "there are no positions from " + std::to_string(from) + " to " + std::to_string(to));
  }
  std::erase_if(cells_of_[sequence], [&](int cell) {
    if (positions_[cell] < from || positions_[cell] >= to) return false;
    release(cell, bit_of(sequence));
    return true;
  });
}

void CellTable::release(int cell, uint64_t bit) {
  owners_[cell] &= ~bit;
  if (owners_[cell] != 0) return;
  ++free_;
  while (end_ > 0 && owners_[end_ - 1] == 0) --end_;
}

std::vector<CellTable::Token> CellTable::plan(const std::vector<int>& sequences,
                                              const std::vector<int>& positions) const {
  const int count = static_cast<int>(sequences.size());
  std::vector<int> next(max_sequences, -1);
  for (int i = 0; i < count; ++i) {
    check(sequences[i]);
    int& expected = next[sequences[i]];
    if (expected < 0) expected = length(sequences[i]);
    if (positions[i] != expected) {
      refuse("SHAPE", "the next position of sequence " + std::to_string(sequences[i]) + " is " +
                          std::to_string(expected) + ", not " + std::to_string(positions[i]));
    }
    ++expected;
  }
  if (count > free_) {
    refuse("SHAPE", std::to_string(free_) + " of the cache's " + std::to_string(cells()) +
                        " cells are free; " + std::to_string(count) + " tokens don't fit");
  }
  FreeCells free(owners_);
  std::vector<int> last(max_sequences, -1);
  std::vector<Token> tokens;
  for (int i = 0; i < count; ++i) {
    int& cell = last[sequences[i]];
    const std::vector<int>& cells = cells_of_[sequences[i]];
    if (cell < 0 && !cells.empty()) cell = cells.back();
    cell = free.after(cell);
    tokens.push_back({sequences[i], positions[i], cell});
  }
  return tokens;
}

void CellTable::commit(const std::vector<Token>& plan) {
  for (const auto& [sequence, position, cell] : plan) {
    owners_[cell] = bit_of(sequence);
    positions_[cell] = position;
    cells_of_[sequence].push_back(cell);
    end_ = std::max(end_, cell + 1);
    --free_;
  }
}

}  // namespace mlx_runners::lm
