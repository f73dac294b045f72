// Reads the tables that JavaScript hands over. Whatever they hold, the result refers only to what
// is there.
#include <cmath>
#include <utility>

#include "core/dtypes.h"
#include "core/errors.h"
#include "program/program.h"

namespace mlx_runners::program {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw CodedError("PROGRAM", what); }

class Words {
 public:
  explicit Words(std::span<const double> words) : words_(words) {}

  int64_t number() {
    if (next_ == words_.size()) refuse("the program's tables end too early");
    const double word = words_[next_++];
    if (!(std::abs(word) <= 9007199254740992.0) || std::nearbyint(word) != word) {
      refuse("the program's tables hold a number that is not whole");
    }
    return static_cast<int64_t>(word);
  }

  // A number below `count`.
  uint32_t below(size_t count, const char* what) {
    const int64_t index = number();
    if (index < 0 || static_cast<size_t>(index) >= count) {
      refuse(std::string("there is no ") + what + " " + std::to_string(index));
    }
    return static_cast<uint32_t>(index);
  }

  // How many of something follow, each of at least one word.
  uint32_t count() { return below(words_.size() - next_ + 1, "list of length"); }

  template <class T, class Read>
  std::vector<T> list(Read&& read) {
    std::vector<T> all;
    const uint32_t size = count();
    all.reserve(size);
    for (uint32_t i = 0; i < size; ++i) all.push_back(read());
    return all;
  }

  bool at_end() const { return next_ == words_.size(); }

 private:
  std::span<const double> words_;
  size_t next_ = 0;
};

class Reader {
 public:
  explicit Reader(Tables& tables) : words_(tables.words), tables_(tables) {}

  Program program() {
    Program program;
    program.states = words_.list<State>([&] { return state(); });
    states_ = program.states.size();
    program.methods = words_.list<Method>([&] { return method(); });
    if (!words_.at_end()) refuse("the program's tables are longer than what they describe");
    program.constants = std::move(tables_.constants);
    program.values = std::move(tables_.values);
    program.lists = std::move(tables_.lists);
    program.texts = std::move(tables_.texts);
    return program;
  }

 private:
  const std::string& text() { return tables_.texts[text_number()]; }
  uint32_t text_number() { return words_.below(tables_.texts.size(), "text"); }
  mx::Dtype dtype() { return dtypes[words_.below(dtypes.size(), "dtype")].dtype; }
  uint32_t slot(const Trace& trace) { return words_.below(trace.slot_count, "slot"); }
  uint32_t size(const Trace& trace) { return words_.below(trace.sizes.count(), "size"); }

  State state() {
    State state{text(), dtype(), {}};
    double bytes = size_of(state.dtype);
    for (const int64_t size : words_.list<int64_t>([&] { return words_.number(); })) {
      if (size < 0 || size > 2147483647) refuse("the state " + state.name + " has no valid shape");
      state.shape.push_back(static_cast<int>(size));
      bytes *= static_cast<double>(size);
    }
    if (bytes > 9007199254740992.0) refuse("the state " + state.name + " has no valid shape");
    return state;
  }

  Method method() {
    Method method{text(), words_.list<std::string>([&] { return text(); }), {}};
    dimensions_ = words_.list<std::string>([&] { return text(); });
    method.traces = words_.list<Trace>([&] { return trace(method); });
    if (method.traces.empty()) refuse(method.name + " has no instructions");
    for (const Trace& trace : method.traces) {
      if (trace.outputs.size() != method.traces.front().outputs.size()) {
        refuse(method.name + " does not always give the same outputs");
      }
    }
    return method;
  }

  Dimension dimension(const std::string& name) {
    Dimension dimension{words_.number(), words_.number(), words_.number(), name};
    const auto& [min, max, multiple_of, _] = dimension;
    const bool valid = min >= 0 && min <= max && max <= 2147483647 && multiple_of >= 1 &&
                       max / multiple_of * multiple_of >= min;
    if (!valid) {
      refuse("the dimension " + name + " has no valid range");
    }
    return dimension;
  }

  ArrayType type(const Trace& trace) {
    return {dtype(), words_.list<uint32_t>([&] { return size(trace); })};
  }
  TypedSlot typed_slot(const Trace& trace) {
    const uint32_t number = slot(trace);
    return {number, type(trace)};
  }

  Trace trace(const Method& method) {
    Trace trace;
    for (const std::string& name : dimensions_) trace.dimensions.push_back(dimension(name));
    for (uint32_t left = words_.count(); left > 0; --left) {
      const auto op = static_cast<SizeOp>(words_.below(size_op_count, "operator of sizes"));
      const int64_t a = words_.number();
      trace.sizes.add({op, a, words_.number()}, trace.dimensions.size());
    }
    trace.limits = words_.list<Limit>([&] {
      const uint32_t limited = size(trace);
      const int64_t max = words_.number();
      return Limit{limited, max, text_number()};
    });
    // More than the tables have words would be unused.
    trace.slot_count = words_.below(tables_.words.size() + 1, "number of slots");
    trace.inputs = words_.list<TypedSlot>([&] { return typed_slot(trace); });
    if (trace.inputs.size() != method.inputs.size()) {
      refuse(method.name + " does not always take the same inputs");
    }
    trace.states = words_.list<StateSlot>([&] {
      const uint32_t state = words_.below(states_, "state");
      const uint32_t before = slot(trace);
      return StateSlot{state, before, slot(trace)};
    });
    std::vector<bool> held(states_, false);
    for (const StateSlot& state : trace.states) {
      if (held[state.state]) refuse(method.name + " holds a state in two slots");
      held[state.state] = true;
    }
    trace.constants = words_.list<ConstantSlot>([&] {
      const uint32_t constant = words_.below(tables_.constants.size(), "constant");
      return ConstantSlot{constant, slot(trace)};
    });
    trace.outputs = words_.list<TypedSlot>([&] { return typed_slot(trace); });
    trace.patches = words_.list<Patch>([&] {
      const bool in_lists = words_.below(2, "place for a size") == 1;
      const size_t places = in_lists ? tables_.lists.size() : tables_.values.size();
      const uint32_t index = words_.below(places, "argument");
      return Patch{in_lists, index, size(trace)};
    });
    trace.instructions = words_.list<Instruction>([&] { return instruction(trace); });
    return trace;
  }

  Instruction instruction(const Trace& trace) {
    Instruction read{};
    read.op = &op_table()[words_.below(op_table().size(), "op")];
    read.first_value = words_.below(tables_.values.size() + 1, "argument");
    read.value_count = words_.below(tables_.values.size() - read.first_value + 1, "argument");
    read.source = text_number();
    read.results = words_.list<TypedSlot>([&] { return typed_slot(trace); });
    return read;
  }

  Words words_;
  Tables& tables_;
  size_t states_ = 0;
  std::vector<std::string> dimensions_;
};

}  // namespace

Program read_program(Tables tables) { return Reader(tables).program(); }

}  // namespace mlx_runners::program
