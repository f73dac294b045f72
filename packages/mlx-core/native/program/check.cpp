// What can be said of a program's arguments before it runs: each fits its op, and sizes are put
// only where integers stand.
#include <cmath>
#include <set>

#include "core/dtypes.h"
#include "core/errors.h"
#include "program/program.h"

namespace mlx_runners::program {
namespace {

// What an element of the list area is used as.
enum Use : uint8_t { Unused = 0, Integer = 1, Slot = 2 };

class Checker {
 public:
  explicit Checker(const Program& program)
      : program_(program), uses_(program.lists.size(), Unused) {}

  void check() {
    for (const Method& method : program_.methods) {
      for (const Trace& trace : method.traces) {
        for (size_t i = 0; i < trace.instructions.size(); ++i) {
          try {
            check_instruction(trace.instructions[i], trace.slot_count);
          } catch (const CodedError& error) {
            throw CodedError("PROGRAM", name_of(program_, method, trace, i) + ": " + error.what());
          }
        }
      }
    }
    for (const Method& method : program_.methods) {
      for (const Trace& trace : method.traces) {
        for (const Patch& patch : trace.patches) check_patch(patch);
      }
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) { throw CodedError("PROGRAM", what); }

  void check_instruction(const Instruction& instruction, uint32_t slot_count) {
    const auto& params = instruction.op->params;
    if (instruction.value_count > params.size()) {
      refuse("it has " + std::to_string(instruction.value_count) + " arguments; the op takes " +
             std::to_string(params.size()));
    }
    for (size_t i = 0; i < params.size(); ++i) {
      const Value none;
      const Value& value =
          i < instruction.value_count ? program_.values[instruction.first_value + i] : none;
      if (!fits(value, params[i], slot_count)) {
        refuse(std::string(params[i].name) + " has an argument of a kind that does not fit");
      }
    }
    if (!instruction.op->many && instruction.results.size() != 1) {
      refuse("the op gives one result");
    }
    if (instruction.results.size() > ExchangeLayout::results) {
      refuse("it gives " + std::to_string(instruction.results.size()) + " results, and may give " +
             std::to_string(ExchangeLayout::results) + " at most");
    }
    std::set<uint32_t> slots;
    for (const TypedSlot& result : instruction.results) {
      if (!slots.insert(result.slot).second) refuse("two of its results share a slot");
    }
  }

  bool fits(const Value& value, const Param& param, uint32_t slot_count) {
    switch (value.tag) {
      case Tag::None:
        return param.optional || param.nullable;
      case Tag::Array:
        return param.kind == Kind::Array && is_slot(value.number, slot_count);
      case Tag::Int:
        return (is_number(param) || param.kind == Kind::Axes) && is_whole(value.number);
      case Tag::Float:
        return is_number(param) && (param.kind != Kind::Int || param.operand);
      case Tag::Bool:
        return (param.kind == Kind::Bool || param.operand) &&
               (value.number == 0 || value.number == 1);
      case Tag::Dtype:
        return param.kind == Kind::Dtype && is_whole(value.number) && value.number >= 0 &&
               value.number < dtypes.size();
      case Tag::String:
        // Throws when no text has this number.
        return param.kind == Kind::String && is_whole(value.number) && value.number >= 0 &&
               value.number <= UINT32_MAX &&
               !(interned(static_cast<uint32_t>(value.number)), false);
      case Tag::Ints:
        return (param.kind == Kind::Ints || param.kind == Kind::Axes) &&
               list_fits(value, Integer, 0);
      case Tag::Arrays:
        return param.kind == Kind::Arrays && list_fits(value, Slot, slot_count);
    }
    return false;
  }

  static bool is_number(const Param& param) {
    return param.kind == Kind::Int || param.kind == Kind::Float || param.operand;
  }
  static bool is_whole(double number) { return std::nearbyint(number) == number; }
  static bool is_slot(double number, uint32_t slot_count) {
    return number >= 0 && number < slot_count && is_whole(number);
  }

  bool list_fits(const Value& value, Use use, uint32_t slot_count) {
    if (value.size > ExchangeLayout::lists) {
      refuse("a list has " + std::to_string(value.size) + " elements, and may have " +
             std::to_string(ExchangeLayout::lists) + " at most");
    }
    const double size = static_cast<double>(program_.lists.size());
    if (!(value.number >= 0 && is_whole(value.number) && value.number + value.size <= size)) {
      refuse("a list argument lies outside the list area");
    }
    const auto start = static_cast<size_t>(value.number);
    for (size_t i = start; i < start + value.size; ++i) {
      const double element = program_.lists[i];
      if (use == Slot ? !is_slot(element, slot_count) : !is_whole(element)) return false;
      if (uses_[i] != Unused && uses_[i] != use) return false;
      uses_[i] = use;
    }
    return true;
  }

  void check_patch(const Patch& patch) const {
    const bool integer = patch.in_lists ? uses_[patch.index] == Integer
                                        : program_.values[patch.index].tag == Tag::Int;
    if (!integer) refuse("a size is put where no integer stands");
  }

  const Program& program_;
  std::vector<Use> uses_;
};

}  // namespace

void check_arguments(const Program& program) { Checker(program).check(); }

std::string name_of(const Program& program, const Method& method, const Trace& trace,
                    size_t instruction) {
  const Instruction& named = trace.instructions[instruction];
  return method.name + ", instruction " + std::to_string(instruction) + " (" + named.op->name +
         " at " + program.texts[named.source] + ")";
}

}  // namespace mlx_runners::program
