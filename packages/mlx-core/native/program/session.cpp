#include "program/session.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "core/memory_limit.h"
#include "mlx/allocator.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"
#include "program/dimensions.h"

namespace mlx_runners::program {
namespace {

// Instructions are built and then computed in chunks, between which a call can be cancelled. MLX
// works ahead, so that what a chunk allocates is freed only at its end; smaller chunks would have
// threads wait more often. packages/program/src/memory-estimate.ts reckons with the same numbers.
constexpr size_t chunk_instructions = 64;
constexpr double chunk_bytes = 32 << 20;
// Computing starts early, and while a chunk of little memory is computed the next one is built:
// that is a good part of the time that a step of one token takes.
constexpr size_t first_chunk_instructions = 16;
constexpr double overlapped_bytes = 1 << 20;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void throw_if_cancelled(const Call& call) {
  if (call.cancelled && call.cancelled->load(std::memory_order_relaxed)) {
    throw CodedError("ABORTED", "the operation was aborted");
  }
}

void evaluate(const std::vector<mx::array>& arrays) {
  require_memory_for(arrays);
  mx::eval(arrays);
}

bool share_buffer(const mx::array& a, const mx::array& b) {
  return a.data_shared_ptr() && a.data_shared_ptr() == b.data_shared_ptr();
}

// The same values in a buffer of their own.
mx::array owned_copy(const mx::array& x, mx::Stream stream) {
  const mx::array rows = mx::contiguous(x, false, stream);
  evaluate({rows});
  require_memory(static_cast<double>(x.nbytes()));
  mx::array copy(mx::allocator::malloc(std::max<size_t>(x.nbytes(), 1)), x.shape(), x.dtype());
  std::memcpy(copy.data<char>(), rows.data<char>(), x.nbytes());
  return copy;
}

double bytes_of(const Instruction& instruction, const Program& program, const ArraySource& slots) {
  double bytes = 0;
  for (uint32_t i = 0; i < instruction.value_count; ++i) {
    const Value& value = program.values[instruction.first_value + i];
    if (value.tag == Tag::Array) bytes += static_cast<double>(slots.at(value.number).nbytes());
    if (value.tag != Tag::Arrays) continue;
    for (uint32_t k = 0; k < value.size; ++k) {
      const double slot = program.lists[static_cast<size_t>(value.number) + k];
      bytes += static_cast<double>(slots.at(slot).nbytes());
    }
  }
  return bytes;
}

// When a call fails, what it has scheduled ends first, and its errors with it.
class Drained {
 public:
  explicit Drained(mx::Stream stream) : stream_(stream) {}
  ~Drained() {
    if (std::uncaught_exceptions() > before_) drain(stream_);
  }
  Drained(const Drained&) = delete;
  Drained& operator=(const Drained&) = delete;

 private:
  mx::Stream stream_;
  int before_ = std::uncaught_exceptions();
};

std::vector<mx::array> finished(const lm::KvStep& step, const Method& method) {
  try {
    return step.finish();
  } catch (const CodedError& error) {
    throw CodedError(error.code(), method.name + ": " + error.what());
  }
}

}  // namespace

const mx::array& Session::Slots::at(double slot) const {
  const auto index = static_cast<size_t>(slot);
  if (!(slot >= 0) || index >= arrays_.size() || !arrays_[index]) {
    throw CodedError("PROGRAM", "an empty slot is read");
  }
  return *arrays_[index];
}

std::vector<mx::array> Session::Slots::unscheduled() const {
  std::vector<mx::array> all;
  for (const auto& array : arrays_) {
    if (array && array->status() == mx::array::Status::unscheduled) all.push_back(*array);
  }
  return all;
}

Session::Session(std::shared_ptr<const Program> program, Lane& lane, mx::Stream stream)
    : program_(std::move(program)),
      lane_(lane),
      stream_(stream),
      values_(program_->values),
      lists_(program_->lists) {}

std::vector<mx::array> Session::run(const Call& call) {
  const auto start = Clock::now();
  if (call.method >= program_->methods.size())
    throw CodedError("PROGRAM", "no method has this number");
  const Method& method = program_->methods[call.method];
  // Whatever happens, nothing of this call stays alive until the next.
  struct Emptied {
    Slots& slots;
    ~Emptied() { slots.resize(0); }
  } emptied{slots_};

  throw_if_cancelled(call);
  const auto step = call.cache ? call.cache->begin(call.sequences) : nullptr;
  const lm::KvScope scope(step.get());
  const Trace& trace = choose(method, call);
  const Drained drained(stream_);
  if (states_.size() != program_->states.size()) {
    std::vector<mx::array> zeros = blank_states();
    evaluate(zeros);
    states_ = std::move(zeros);
  }
  fill(method, trace, call.inputs, program_->constants, states_);
  auto outputs = finish(method, trace, compute(method, trace, call), step.get());
  if (call.profile) call.profile->seconds = seconds_since(start);
  return outputs;
}

void Session::try_build(const Method& method, const Trace& trace,
                        const std::vector<mx::array>& constants) {
  std::vector<int64_t> sizes;
  try {
    trace.sizes.evaluate(smallest_dimensions(trace), sizes);
  } catch (const CodedError& error) {
    throw CodedError(error.code(), method.name + ": " + error.what());
  }
  const auto inputs = blank_inputs(trace, sizes);
  build_graph(method, trace, std::move(sizes), inputs, constants, blank_states());
}

Session::Graph Session::build_graph(const Method& method, const Trace& trace,
                                    std::vector<int64_t> sizes,
                                    const std::vector<mx::array>& inputs,
                                    const std::vector<mx::array>& constants,
                                    const std::vector<mx::array>& states, const Built& built) {
  sizes_ = std::move(sizes);
  fill(method, trace, inputs, constants, states);
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    build(method, trace, i, Purpose::Check);
    if (built) built(i, results_of(trace.instructions[i]));
  }
  Graph graph{{}, states};
  for (const TypedSlot& output : trace.outputs) {
    graph.outputs.push_back(slots_.at(output.slot));
    if (has_type(graph.outputs.back(), output.type)) continue;
    throw CodedError("PROGRAM", method.name + ": an output is " + in_words(graph.outputs.back()) +
                                    ", which the program does not say");
  }
  for (const auto& [number, slot, next] : trace.states) {
    const State& state = program_->states[number];
    const mx::array& made = slots_.at(next);
    graph.states[number] = made;
    if (made.dtype() == state.dtype && made.shape() == state.shape) continue;
    throw CodedError("PROGRAM", method.name + ": the state " + state.name + " becomes " +
                                    in_words(made) + ", which it is not declared as");
  }
  slots_.resize(0);
  return graph;
}

std::vector<mx::array> Session::blank_inputs(const Trace& trace,
                                             std::span<const int64_t> sizes) const {
  std::vector<mx::array> inputs;
  for (const auto& [slot, type] : trace.inputs) {
    mx::Shape shape;
    for (const uint32_t number : type.shape) {
      const int64_t size = sizes[number];
      if (size < 0 || size > 2147483647) throw CodedError("PROGRAM", "an input has no valid shape");
      shape.push_back(static_cast<int>(size));
    }
    inputs.push_back(mx::zeros(shape, type.dtype, stream_));
  }
  return inputs;
}

std::vector<mx::array> Session::blank_states() const {
  std::vector<mx::array> states;
  for (const State& state : program_->states) {
    states.push_back(mx::zeros(state.shape, state.dtype, stream_));
  }
  return states;
}

const Trace& Session::choose(const Method& method, const Call& call) {
  std::string why;
  std::vector<int64_t> dimensions;
  for (const Trace& trace : method.traces) {
    try {
      why = bind_dimensions(*program_, method, trace, call.inputs, call.dimensions, dimensions,
                            sizes_);
    } catch (const CodedError& error) {
      throw CodedError(error.code(), method.name + ": " + error.what());
    }
    if (why.empty()) return trace;
  }
  throw CodedError("SHAPE", method.name + ": " + why);
}

void Session::fill(const Method& method, const Trace& trace, const std::vector<mx::array>& inputs,
                   const std::vector<mx::array>& constants, const std::vector<mx::array>& states) {
  slots_.resize(trace.slot_count);
  for (size_t i = 0; i < inputs.size(); ++i) slots_.set(trace.inputs[i].slot, inputs[i]);
  for (const auto& [constant, slot] : trace.constants) {
    slots_.set(slot, constants[constant]);
  }
  for (const StateSlot& state : trace.states) slots_.set(state.slot, states[state.state]);
  for (const Patch& patch : trace.patches) {
    const int64_t size = sizes_[patch.size];
    if (std::abs(size) > 2147483647) require_32_bits(method, trace, patch);
    (patch.in_lists ? lists_[patch.index] : values_[patch.index].number) =
        static_cast<double>(size);
  }
}

// Only what is a number, such as the start of arange, may be larger.
void Session::require_32_bits(const Method& method, const Trace& trace, const Patch& patch) const {
  for (size_t i = 0; i < trace.instructions.size(); ++i) {
    const Instruction& instruction = trace.instructions[i];
    for (uint32_t k = 0; k < instruction.value_count; ++k) {
      const uint32_t position = instruction.first_value + k;
      const Value& value = program_->values[position];
      const bool in_list = patch.in_lists && value.tag == Tag::Ints &&
                           patch.index >= value.number && patch.index < value.number + value.size;
      const Param& param = instruction.op->params[k];
      const bool integer = (param.kind == Kind::Int && !param.operand) || param.kind == Kind::Axes;
      const bool is_value = !patch.in_lists && patch.index == position && integer;
      if (!in_list && !is_value) continue;
      throw CodedError("SHAPE", name_of(*program_, method, trace, i) + ": " + param.name +
                                    " would hold " + std::to_string(sizes_[patch.size]) +
                                    ", which is beyond 32 bits");
    }
  }
}

double Session::build(const Method& method, const Trace& trace, size_t number, Purpose purpose) {
  const Instruction& instruction = trace.instructions[number];
  std::vector<mx::array> results;
  try {
    const ValueList arguments{values_.data() + instruction.first_value, instruction.value_count,
                              lists_.data(), static_cast<uint32_t>(lists_.size())};
    instruction.op->call(arguments, slots_, stream_, results, instruction.in_place);
    if (results.size() != instruction.results.size()) {
      throw CodedError("PROGRAM", "it gives " + std::to_string(results.size()) +
                                      " results, not as many as the program says");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      purpose == Purpose::Compute ? require_possible(results[i]) : require_countable(results[i]);
      if (has_type(results[i], instruction.results[i].type)) continue;
      throw CodedError("PROGRAM",
                       "it gives " + in_words(results[i]) + ", which is not what the program says");
    }
  } catch (const std::exception& error) {
    throw CodedError(code_of(error),
                     name_of(*program_, method, trace, number) + ": " + error.what());
  }
  double bytes = 0;
  for (const mx::array& result : results) bytes += new_bytes(result);
  for (const uint32_t slot : instruction.frees) slots_.clear(slot);
  for (size_t i = 0; i < results.size(); ++i) {
    slots_.set(instruction.results[i].slot, std::move(results[i]));
  }
  return bytes;
}

Session::Chunk Session::compute(const Method& method, const Trace& trace, const Call& call) {
  const size_t count = trace.instructions.size();
  Chunk running;
  for (size_t next = 0; next < count;) {
    const size_t first = next;
    const size_t most = first == 0 ? first_chunk_instructions : chunk_instructions;
    double bytes = 0;
    while (next < count && next - first < most && bytes < chunk_bytes) {
      if (call.profile) {
        profile(method, trace, next, *call.profile);
        throw_if_cancelled(call);
      } else {
        bytes += build(method, trace, next, Purpose::Compute);
      }
      ++next;
    }
    if (next == count) break;
    Chunk chunk{first, next, slots_.unscheduled()};
    schedule(method, trace, chunk);
    wait_for(method, trace, running);
    running = std::move(chunk);
    if (bytes > overlapped_bytes) wait_for(method, trace, running);
    throw_if_cancelled(call);
  }
  return running;
}

void Session::schedule(const Method& method, const Trace& trace, Chunk& chunk) const {
  naming(method, trace, chunk, [&] {
    require_memory_for(chunk.arrays);
    mx::async_eval(chunk.arrays);
  });
  if (stream_.device == mx::Device::cpu) chunk.computed = completion(stream_);
}

void Session::wait_for(const Method& method, const Trace& trace, Chunk& chunk) const {
  naming(method, trace, chunk, [&] {
    // Arrays that are there already would not tell of an error.
    if (chunk.computed.valid()) chunk.computed.get();
    for (mx::array& array : chunk.arrays) array.wait();
  });
}

void Session::naming(const Method& method, const Trace& trace, const Chunk& chunk,
                     const std::function<void()>& compute) const {
  const auto [first, end] = std::pair(chunk.first, chunk.end);
  try {
    compute();
  } catch (const std::exception& error) {
    std::string place = method.name;
    if (first < end) place = name_of(*program_, method, trace, end - 1);
    if (end - first > 1)
      place = "from " + name_of(*program_, method, trace, first) + " to " + place;
    throw CodedError(code_of(error), place + ": " + error.what());
  }
}

void Session::profile(const Method& method, const Trace& trace, size_t number, Profile& profile) {
  const Instruction& instruction = trace.instructions[number];
  double bytes = bytes_of(instruction, *program_, slots_);
  build(method, trace, number, Purpose::Compute);
  const std::vector<mx::array> results = results_of(instruction);
  for (const mx::array& result : results) bytes += static_cast<double>(result.nbytes());
  const auto start = Clock::now();
  Chunk chunk{number, number + 1, results};
  schedule(method, trace, chunk);
  wait_for(method, trace, chunk);
  const double seconds = seconds_since(start);
  auto entry = std::ranges::find(profile.ops, instruction.op, &OpProfile::op);
  if (entry == profile.ops.end()) entry = profile.ops.insert(entry, {instruction.op});
  ++entry->count;
  entry->seconds += seconds;
  entry->bytes += bytes;
}

std::vector<mx::array> Session::finish(const Method& method, const Trace& trace, Chunk running,
                                       lm::KvStep* step) {
  std::vector<mx::array> outputs;
  for (const TypedSlot& output : trace.outputs) outputs.push_back(slots_.at(output.slot));
  std::vector<mx::array> states = states_;
  for (const auto& [number, slot, next] : trace.states) {
    const State& state = program_->states[number];
    states[number] = slots_.at(next);
    if (states[number].dtype() != state.dtype || states[number].shape() != state.shape) {
      throw CodedError("PROGRAM", method.name + ": the state " + state.name + " becomes " +
                                      in_words(states[number]));
    }
  }
  slots_.resize(0);
  std::vector<mx::array> all = outputs;
  all.insert(all.end(), states.begin(), states.end());
  if (step) {
    const std::vector<mx::array> kept = finished(*step, method);
    all.insert(all.end(), kept.begin(), kept.end());
  }
  Chunk last{running.end, trace.instructions.size(), std::move(all)};
  schedule(method, trace, last);
  wait_for(method, trace, running);
  wait_for(method, trace, last);
  last.arrays.clear();
  running.arrays.clear();
  commit(std::move(states), outputs);
  if (step) step->commit();
  return outputs;
}

// States are written in place on the CPU: each has a buffer of its own, which it fills in order.
// What can fail comes first, so that the states stay those of before the call.
void Session::commit(std::vector<mx::array> states, std::vector<mx::array>& outputs) {
  if (stream_.device == mx::Device::cpu) {
    for (mx::array& output : outputs) {
      const auto shares = [&](const mx::array& state) { return share_buffer(output, state); };
      if (std::ranges::any_of(states, shares)) output = owned_copy(output, stream_);
    }
    for (size_t i = 0; i < states.size(); ++i) {
      mx::array& state = states[i];
      const bool is_own = share_buffer(state, states_[i]) || state.is_donatable();
      const bool fills = state.flags().row_contiguous && state.data_size() == state.size();
      if (!is_own || !fills) state = owned_copy(state, stream_);
    }
  }
  states_ = std::move(states);
}

bool Session::has_type(const mx::array& array, const ArrayType& type) const {
  return array.dtype() == type.dtype && array.ndim() == type.shape.size() &&
         std::equal(type.shape.begin(), type.shape.end(), array.shape().begin(),
                    [&](uint32_t size, int actual) { return sizes_[size] == actual; });
}

std::vector<mx::array> Session::results_of(const Instruction& instruction) const {
  std::vector<mx::array> results;
  for (const TypedSlot& result : instruction.results) results.push_back(slots_.at(result.slot));
  return results;
}

std::shared_ptr<const Program> make_program(Tables tables, Lane& lane, mx::Stream stream) {
  auto program = std::make_shared<Program>(read_program(std::move(tables)));
  for (const mx::array& constant : program->constants) {
    if (!constant.is_available()) throw CodedError("PROGRAM", "constants have to be computed");
  }
  check_arguments(*program);
  find_lifetimes(*program);
  LaneLock lock(lane, stream);
  Session trial(program, lane, stream);
  std::vector<mx::array> constants;
  for (const mx::array& constant : program->constants) {
    constants.push_back(mx::zeros(constant.shape(), constant.dtype(), stream));
  }
  for (const Method& method : program->methods) {
    for (const Trace& trace : method.traces) {
      try {
        trial.try_build(method, trace, constants);
      } catch (const CodedError& error) {
        throw CodedError("PROGRAM", error.what());
      }
    }
  }
  return program;
}

}  // namespace mlx_runners::program
