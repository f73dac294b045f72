// Which cells hold which tokens of which sequences.
#pragma once

#include <cstdint>
#include <vector>

namespace mlx_runners::lm {

// A cell holds one token, at one position, of all the sequences that own it: those that were forked
// share what they have in common.
class CellTable {
 public:
  static constexpr int max_sequences = 63;
  static constexpr int block = 64;  // cells

  explicit CellTable(int cells);

  int cells() const { return static_cast<int>(owners_.size()); }
  int free_cells() const { return free_; }
  // One more than the last cell that is owned.
  int end() const { return end_; }
  // Sequences of a cell, by bit.
  uint64_t owners(int cell) const { return owners_[cell]; }
  int position(int cell) const { return positions_[cell]; }

  // A sequence without tokens; throws CodedError "USAGE" when there are max_sequences. All others
  // throw it for what isn't an open sequence.
  int open();
  void close(int sequence);
  // The position of the next token.
  int length(int sequence) const;
  // A new sequence that shares the cells of the first `length` positions.
  int fork(int sequence, int length);
  // Takes the tokens of positions [from, to) from a sequence. Cells without owners are free.
  void remove(int sequence, int from, int to);
  // A sequence's cells by position.
  const std::vector<int>& cells_of(int sequence) const;

  struct Token {
    int sequence;
    int position;
    int cell;
  };
  // Cells for tokens: the one after the sequence's last, so that a sequence lies in long runs, else
  // the first of a free block, else any. Throws CodedError "SHAPE" when there aren't enough, or a
  // token isn't the next of its sequence. Changes nothing.
  std::vector<Token> plan(const std::vector<int>& sequences,
                          const std::vector<int>& positions) const;
  void commit(const std::vector<Token>& plan);

 private:
  void check(int sequence) const;
  void release(int cell, uint64_t bit);

  std::vector<uint64_t> owners_;
  std::vector<int> positions_;
  std::vector<std::vector<int>> cells_of_;  // by sequence
  uint64_t open_ = 0;
  int free_;
  int end_ = 0;
};

}  // namespace mlx_runners::lm
