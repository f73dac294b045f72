// A program: methods as flat lists of instructions on slots, which hold arrays. Immutable once it
// is made, and then shared by any number of sessions and threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/lanes.h"
#include "core/value.h"
#include "mlx/array.h"
#include "ops/op.h"
#include "program/sizes.h"

namespace mlx_runners::program {

namespace mx = mlx::core;

struct ArrayType {
  mx::Dtype dtype = mx::float32;
  std::vector<uint32_t> shape;  // numbers of sizes
};

struct TypedSlot {
  uint32_t slot;
  ArrayType type;
};

struct Dimension {
  int64_t min;
  int64_t max;
  int64_t multiple_of;
  std::string name;
};

// sizes[size] is at most max; `text` says what it is.
struct Limit {
  uint32_t size;
  int64_t max;
  uint32_t text;
};

// Where a size stands in the arguments: in the number of a value, or in the list area.
struct Patch {
  bool in_lists;
  uint32_t index;
  uint32_t size;
};

struct Instruction {
  const Op* op;
  uint32_t first_value;
  uint32_t value_count;
  uint32_t source;  // number of the text that names file and line
  std::vector<TypedSlot> results;
  // Found when the program is made:
  std::vector<uint32_t> frees;  // slots that nothing reads afterwards
  bool in_place = false;        // writes into its first argument, a state that nothing else reads
};

struct StateSlot {
  uint32_t state;
  uint32_t slot;  // before the call
  uint32_t next;  // after it
};

struct ConstantSlot {
  uint32_t constant;
  uint32_t slot;
};

// Instructions for calls whose dimensions lie within these ranges.
struct Trace {
  std::vector<Dimension> dimensions;
  SizeTable sizes;
  std::vector<Limit> limits;
  uint32_t slot_count = 0;
  std::vector<TypedSlot> inputs;
  std::vector<StateSlot> states;
  std::vector<ConstantSlot> constants;
  std::vector<TypedSlot> outputs;
  std::vector<Patch> patches;
  std::vector<Instruction> instructions;
};

struct Method {
  std::string name;
  std::vector<std::string> inputs;
  std::vector<Trace> traces;  // the first that fits is taken
};

struct State {
  std::string name;
  mx::Dtype dtype;
  mx::Shape shape;
};

struct Program {
  std::vector<mx::array> constants;  // computed; they may be shared with other programs
  std::vector<State> states;
  std::vector<Method> methods;
  std::vector<Value> values;  // the arguments of all instructions
  std::vector<double> lists;  // what they point to
  std::vector<std::string> texts;
};

// What JavaScript hands over (packages/program/src/tables.ts): `words` describes everything but the
// arguments, in the order of read_program in tables.cpp.
struct Tables {
  std::span<const double> words;
  std::vector<Value> values;
  std::vector<double> lists;
  std::vector<std::string> texts;
  std::vector<mx::array> constants;
};

// Reads and checks: numbers in range, ops and arguments that fit, slots written before they are
// read, states consumed once. Then each trace is built once at its smallest sizes, without being
// computed, which checks shapes and dtypes; `lane` is held meanwhile, and `stream` is one of its.
// Throws CodedError "PROGRAM".
std::shared_ptr<const Program> make_program(Tables tables, Lane& lane, mx::Stream stream);

// ---- the steps of make_program -------------------------------------------------------------

Program read_program(Tables tables);           // tables.cpp
void check_arguments(const Program& program);  // check.cpp
void find_lifetimes(Program& program);         // lifetimes.cpp

// `decode, instruction 12 (linear at @mlx-runners/whisper/src/model.ts:71)`
std::string name_of(const Program& program, const Method& method, const Trace& trace,
                    size_t instruction);

}  // namespace mlx_runners::program
