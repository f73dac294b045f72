// A session: one user of a program, with states of its own.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/lanes.h"
#include "lm/kv_cache.h"
#include "program/program.h"

namespace mlx_runners::program {

// What one op took in all of a call's instructions.
struct OpProfile {
  const Op* op;
  uint64_t count = 0;
  double seconds = 0;  // of computing: building and waiting excluded
  double bytes = 0;    // of operands and results
};

struct Profile {
  std::vector<OpProfile> ops;
  double seconds = 0;  // of the whole call
};

// A call of a method. Inputs are computed arrays; dimensions that no input's shape has are given,
// the others are NaN.
struct Call {
  uint32_t method = 0;
  std::vector<mx::array> inputs;
  std::vector<double> dimensions;
  // Where updateAndAttend finds what came before; tokens are kept when the call succeeds.
  std::shared_ptr<lm::KvCache> cache;
  std::vector<int> sequences;  // of a cell cache's tokens
  const std::atomic<bool>* cancelled = nullptr;
  Profile* profile = nullptr;  // filled when given; each instruction is computed on its own then
};

class Session {
 public:
  // `stream` is one of `lane`. States are made by the first call.
  Session(std::shared_ptr<const Program> program, Lane& lane, mx::Stream stream);

  const Program& program() const { return *program_; }
  Lane& lane() const { return lane_; }
  const mx::Stream& stream() const { return stream_; }

  // Runs a method to its end and returns computed outputs; with the session's lane held (LaneLock).
  // When it throws, states are those of before, except that parts may be written already that were
  // to be replaced in place: a call that is repeated writes them again.
  std::vector<mx::array> run(const Call& call);

  // The states are zeros again; with the lane held.
  void reset() { states_.clear(); }

  // Builds a trace at its smallest sizes, with stand-ins for constants and without computing
  // anything; with the lane held. Throws CodedError "PROGRAM" when shapes or dtypes don't fit.
  void try_build(const Method& method, const Trace& trace, const std::vector<mx::array>& constants);

  // What a trace gives: its outputs, and all of the program's states after it.
  struct Graph {
    std::vector<mx::array> outputs;
    std::vector<mx::array> states;
  };

  // Builds a trace at sizes that it takes, on inputs, constants and states of its types, without
  // computing anything; with the lane held. `built` is told the number and the results of each
  // instruction. Throws CodedErrors that name the instruction.
  using Built = std::function<void(size_t instruction, const std::vector<mx::array>& results)>;
  Graph build_graph(const Method& method, const Trace& trace, std::vector<int64_t> sizes,
                    const std::vector<mx::array>& inputs, const std::vector<mx::array>& constants,
                    const std::vector<mx::array>& states, const Built& built = {});

  // Zeros of the types of a trace's inputs at these sizes, and of all states.
  std::vector<mx::array> blank_inputs(const Trace& trace, std::span<const int64_t> sizes) const;
  std::vector<mx::array> blank_states() const;

 private:
  class Slots final : public ArraySource {
   public:
    const mx::array& at(double slot) const override;
    void set(uint32_t slot, mx::array array) { arrays_[slot].emplace(std::move(array)); }
    void clear(uint32_t slot) { arrays_[slot].reset(); }
    void resize(size_t count) { arrays_.assign(count, std::nullopt); }
    std::vector<mx::array> unscheduled() const;

   private:
    std::vector<std::optional<mx::array>> arrays_;
  };

  const Trace& choose(const Method& method, const Call& call);
  void fill(const Method& method, const Trace& trace, const std::vector<mx::array>& inputs,
            const std::vector<mx::array>& constants, const std::vector<mx::array>& states);
  void require_32_bits(const Method& method, const Trace& trace, const Patch& patch) const;
  // What this machine has no memory for is refused when it is going to be computed. Returns how
  // many bytes that will allocate.
  enum class Purpose { Compute, Check };
  double build(const Method& method, const Trace& trace, size_t instruction, Purpose purpose);
  // Arrays that the instructions from `first` up to, not including, `end` have made, and what says
  // whether they could be computed.
  struct Chunk {
    size_t first = 0;
    size_t end = 0;
    std::vector<mx::array> arrays = {};
    std::future<void> computed = {};  // on the CPU
  };
  // All instructions but the last chunk: that is computed with the results, without what they don't
  // need. Returns the one before it, which may still be running.
  Chunk compute(const Method& method, const Trace& trace, const Call& call);
  // Two parts of computing a chunk.
  void schedule(const Method& method, const Trace& trace, Chunk& chunk) const;
  void wait_for(const Method& method, const Trace& trace, Chunk& chunk) const;
  // Errors of `compute` name the chunk's instructions.
  void naming(const Method& method, const Trace& trace, const Chunk& chunk,
              const std::function<void()>& compute) const;
  void profile(const Method& method, const Trace& trace, size_t instruction, Profile& profile);
  std::vector<mx::array> finish(const Method& method, const Trace& trace, Chunk running,
                                lm::KvStep* step);
  void commit(std::vector<mx::array> states, std::vector<mx::array>& outputs);
  std::vector<mx::array> results_of(const Instruction& instruction) const;
  bool has_type(const mx::array& array, const ArrayType& type) const;

  std::shared_ptr<const Program> program_;
  Lane& lane_;
  mx::Stream stream_;
  std::vector<mx::array> states_;  // none: zeros
  // The program's, with the sizes of this call in them.
  std::vector<Value> values_;
  std::vector<double> lists_;
  std::vector<int64_t> sizes_;
  Slots slots_;
};

}  // namespace mlx_runners::program
