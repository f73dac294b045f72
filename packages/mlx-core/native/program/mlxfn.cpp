#include "program/mlxfn.h"

#include <algorithm>
#include <exception>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/errors.h"
#include "kernels/cpu/fused_primitive.h"
#include "mlx/export.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"
#include "program/dimensions.h"
#include "program/session.h"

namespace mlx_runners::program {
namespace {

// MLX follows a graph by recursion, and takes some 300 bytes of stack for each array on the way:
// this is well within the 8 MB that threads of Node's pool have.
constexpr size_t most_depth = 10'000;

// MLX writes constants as they lie in memory.
Program with_plain_constants(Program program, mx::Stream stream) {
  std::vector<mx::array> plain;
  for (mx::array& constant : program.constants) {
    if (constant.flags().row_contiguous) continue;
    constant = mx::contiguous(constant, false, stream);
    plain.push_back(constant);
  }
  mx::eval(std::move(plain));
  return program;
}

class Writer {
 public:
  Writer(const Program& program, Lane& lane, mx::Stream stream, const MlxfnFile& file)
      : program_(std::make_shared<Program>(with_plain_constants(program, stream))),
        stream_(stream),
        file_(file),
        method_(program_->methods.at(file.method)),
        session_(program_, lane, stream) {}

  void write() {
    const cpu::MlxPrimitivesOnly only;
    const auto traced = [this](const mx::Kwargs& arguments) { return results(arguments); };
    mx::FunctionExporter exporter = mx::exporter(file_.path, traced);
    for (const std::vector<double>& given : file_.sizes) {
      if (file_.cancelled && file_.cancelled->load(std::memory_order_relaxed)) {
        throw CodedError("ABORTED", "the operation was aborted");
      }
      choose(given);
      try {
        exporter(arguments());
      } catch (const CodedError&) {
        throw;
      } catch (const std::exception& error) {
        explain(error.what());
      }
    }
    exporter.close();
  }

 private:
  // As calls are: the first trace that takes the dimensions.
  void choose(const std::vector<double>& given) {
    dimensions_.clear();
    for (const double dimension : given) dimensions_.push_back(dimension_of(dimension));
    std::string why;
    for (const Trace& trace : method_.traces) {
      if (dimensions_.size() != trace.dimensions.size()) {
        throw CodedError("PROGRAM", method_.name + " has another number of dimensions");
      }
      try {
        why = check_dimensions(*program_, trace, dimensions_, sizes_);
      } catch (const CodedError& error) {
        throw CodedError(error.code(), method_.name + ": " + error.what());
      }
      if (!why.empty()) continue;
      trace_ = &trace;
      return;
    }
    throw CodedError("SHAPE", method_.name + ": " + why);
  }

  mx::Kwargs arguments() {
    mx::Kwargs all;
    const auto add = [&](const std::string& name, mx::array array) {
      if (!all.emplace(name, std::move(array)).second) {
        throw CodedError("PROGRAM", method_.name + " has two arguments that are called " + name);
      }
    };
    const auto inputs = session_.blank_inputs(*trace_, sizes_);
    for (size_t i = 0; i < inputs.size(); ++i) add(method_.inputs[i], inputs[i]);
    for (const uint32_t number : file_.dimensions) {
      const auto length = static_cast<int>(dimensions_.at(number));
      add(trace_->dimensions[number].name, mx::zeros({length}, stream_));
    }
    for (const uint32_t number : file_.states) {
      const State& state = program_->states.at(number);
      add(state.name, mx::zeros(state.shape, state.dtype, stream_));
    }
    return all;
  }

  std::vector<mx::array> results(const mx::Kwargs& arguments) {
    std::vector<mx::array> inputs;
    for (const std::string& name : method_.inputs) inputs.push_back(arguments.at(name));
    std::vector<mx::array> states = session_.blank_states();
    for (const uint32_t number : file_.states) {
      states[number] = arguments.at(program_->states[number].name);
    }
    const auto built = [this](size_t instruction, const std::vector<mx::array>& results) {
      for (const mx::array& result : results) note_primitives(instruction, result);
    };
    depths_.clear();
    makers_.clear();
    auto [outputs, next] =
        session_.build_graph(method_, *trace_, sizes_, inputs, program_->constants, states, built);
    for (const uint32_t number : file_.next_states) outputs.push_back(next.at(number));
    return outputs;
  }

  // Remembers which instruction has made which kind of primitive. Operands that other instructions
  // have made are known already.
  size_t note_primitives(size_t instruction, const mx::array& array) {
    const auto known = depths_.find(array.id());
    if (known != depths_.end()) return known->second.first;
    size_t depth = 0;
    if (array.has_primitive()) {
      makers_.try_emplace(array.primitive().name(), instruction);
      for (const mx::array& input : array.inputs()) {
        depth = std::max(depth, note_primitives(instruction, input));
      }
    }
    if (++depth > most_depth) {
      throw CodedError("PROGRAM", name_of(*program_, method_, *trace_, instruction) +
                                      ": more than " + std::to_string(most_depth) +
                                      " operations follow one another, which MLX can't write");
    }
    depths_.emplace(array.id(), std::pair(depth, array));
    return depth;
  }

  // MLX's words for what it can't write end in the name of the primitive.
  [[noreturn]] void explain(const std::string& what) const {
    for (const auto& [name, instruction] : makers_) {
      if (!what.ends_with(" " + name)) continue;
      throw CodedError("PROGRAM", name_of(*program_, method_, *trace_, instruction) +
                                      ": MLX can't write " + name + " to a file");
    }
    throw CodedError("PROGRAM", method_.name + ": " + what);
  }

  std::shared_ptr<const Program> program_;
  mx::Stream stream_;
  const MlxfnFile& file_;
  const Method& method_;
  Session session_;
  // Of the sizes being written:
  const Trace* trace_ = nullptr;
  std::vector<int64_t> dimensions_;
  std::vector<int64_t> sizes_;
  // Of each array by its id, which is its own while the array is kept.
  std::unordered_map<std::uintptr_t, std::pair<size_t, mx::array>> depths_;
  std::map<std::string, size_t> makers_;  // by primitive: the first instruction
};

}  // namespace

void write_mlxfn(const Program& program, Lane& lane, mx::Stream stream, const MlxfnFile& file) {
  if (file.method >= program.methods.size()) {
    throw CodedError("PROGRAM", "no method has this number");
  }
  Writer(program, lane, stream, file).write();
}

}  // namespace mlx_runners::program
