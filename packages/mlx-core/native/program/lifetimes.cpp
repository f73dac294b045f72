// When slots are written, last read, and written in place.
#include <limits>

#include "core/errors.h"
#include "program/program.h"

namespace mlx_runners::program {
namespace {

constexpr size_t never = std::numeric_limits<size_t>::max();

// What a slot holds from one write to the next.
struct Content {
  uint32_t slot;
  bool of_state;   // lies in a state's buffer, and may be written in place
  size_t written;  // by this instruction; never: given
  size_t uses = 0;
  size_t last_use = never;  // by this instruction; as many as there are: a result of the method
  size_t consumer = never;  // the instruction that writes into it
};

class Lifetimes {
 public:
  Lifetimes(const Program& program, const Method& method, Trace& trace)
      : program_(program), method_(method), trace_(trace), current_(trace.slot_count, never) {}

  void find() {
    for (const TypedSlot& input : trace_.inputs) give(input.slot, false);
    for (const ConstantSlot& constant : trace_.constants) give(constant.slot, false);
    for (const StateSlot& state : trace_.states) give(state.slot, true);
    for (size_t i = 0; i < trace_.instructions.size(); ++i) run(i);
    const size_t end = trace_.instructions.size();
    for (const TypedSlot& output : trace_.outputs) read(output.slot, end);
    for (const StateSlot& state : trace_.states) read(state.next, end);
    for (const Content& content : contents_) finish(content);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw CodedError("PROGRAM", method_.name + ": " + what);
  }
  std::string named(size_t instruction) const {
    return instruction < trace_.instructions.size()
               ? name_of(program_, method_, trace_, instruction)
               : "the results of the method";
  }

  void give(uint32_t slot, bool of_state) {
    if (current_[slot] != never) refuse("two inputs, states or constants share a slot");
    write(slot, of_state, never);
  }

  void write(uint32_t slot, bool of_state, size_t instruction) {
    current_[slot] = contents_.size();
    contents_.push_back({slot, of_state, instruction});
  }

  Content& read(double slot, size_t instruction) {
    const size_t current = current_[static_cast<size_t>(slot)];
    if (current == never) {
      refuse("slot " + std::to_string(static_cast<size_t>(slot)) +
             " is read before it is written, by " + named(instruction));
    }
    Content& content = contents_[current];
    content.last_use = instruction;
    ++content.uses;
    return content;
  }

  void run(size_t number) {
    Instruction& instruction = trace_.instructions[number];
    for (uint32_t i = 0; i < instruction.value_count; ++i) {
      const Value& value = program_.values[instruction.first_value + i];
      if (value.tag == Tag::Array) {
        Content& content = read(value.number, number);
        if (i == 0 && content.of_state && instruction.op->in_place) {
          content.consumer = number;
          instruction.in_place = true;
        }
      } else if (value.tag == Tag::Arrays) {
        const auto start = static_cast<size_t>(value.number);
        for (size_t k = start; k < start + value.size; ++k) read(program_.lists[k], number);
      }
    }
    for (const TypedSlot& result : instruction.results) {
      write(result.slot, instruction.in_place, number);
    }
  }

  void finish(const Content& content) {
    if (content.consumer != never && content.uses > 1) {
      // Which of the two comes first isn't known before they are computed.
      refuse("a state is used beside " + named(content.consumer) +
             ", which writes into it: use the updated state instead");
    }
    // Slots are freed before results are put into them; what nothing reads is freed a step later.
    const size_t last = content.last_use != never  ? content.last_use
                        : content.written != never ? content.written + 1
                                                   : never;
    if (last < trace_.instructions.size()) {
      trace_.instructions[last].frees.push_back(content.slot);
    }
  }

  const Program& program_;
  const Method& method_;
  Trace& trace_;
  std::vector<size_t> current_;  // by slot: the number of its content
  std::vector<Content> contents_;
};

}  // namespace

void find_lifetimes(Program& program) {
  for (Method& method : program.methods) {
    for (Trace& trace : method.traces) Lifetimes(program, method, trace).find();
  }
}

}  // namespace mlx_runners::program
