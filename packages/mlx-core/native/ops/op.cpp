#include "ops/op.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/dtypes.h"
#include "core/errors.h"
#include "kernels/cpu/fused_primitive.h"

namespace mlx_runners {
namespace {

struct Strings {
  std::mutex mutex;
  std::unordered_map<std::string, uint32_t> numbers;
  std::deque<std::string> texts;  // a deque, so that references stay valid
};

Strings& strings() {
  static auto* all = new Strings();
  return *all;
}

const char* kind_name(Kind kind) {
  static constexpr const char* names[] = {
      "an array",           "a list of arrays",  "an integer", "a number", "true or false",
      "a list of integers", "an axis or a list", "a dtype",    "a string"};
  return names[static_cast<int>(kind)];
}

// 'a', 'b' or 'c'
std::string listed(const std::vector<std::string>& choices) {
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) list += i + 1 == choices.size() ? " or " : ", ";
    list += '\'' + choices[i] + '\'';
  }
  return list;
}

}  // namespace

std::vector<std::string> split_choices(const char* choices) {
  std::vector<std::string> list(1);
  for (; *choices; ++choices) {
    if (*choices == '|')
      list.emplace_back();
    else
      list.back() += *choices;
  }
  return list;
}

uint32_t intern(const std::string& text) {
  auto& all = strings();
  std::lock_guard lock(all.mutex);
  auto [entry, added] = all.numbers.try_emplace(text, static_cast<uint32_t>(all.texts.size()));
  if (added) all.texts.push_back(text);
  return entry->second;
}

const std::string& interned(uint32_t number) {
  auto& all = strings();
  std::lock_guard lock(all.mutex);
  if (number >= all.texts.size()) throw CodedError("PROGRAM", "no string has this number");
  return all.texts[number];
}

void Op::call(ValueList values, const ArraySource& arrays, mx::Stream stream,
              std::vector<mx::array>& results, bool update) const {
  const Arguments arguments(*this, values, arrays);
  const bool own = !cpu::MlxPrimitivesOnly::active();
  if (own && update && in_place) return thunk(in_place, arguments, stream, results);
  const bool kernel =
      own && cpu_kernel && stream.device == mx::Device::cpu && !arguments.any_tracer();
  thunk(kernel ? cpu_kernel : function, arguments, stream, results);
}

Value Arguments::value(size_t position) const {
  if (position < list_.count && list_.values[position].tag != Tag::None) {
    return list_.values[position];
  }
  const Param& param = op_.params[position];
  if (!param.optional && !param.nullable) wrong(position, "to be given");
  return param.fallback;
}

bool Arguments::given(size_t position) const { return value(position).tag != Tag::None; }

void Arguments::wrong(size_t position, const char* expected) const {
  throw CodedError("DTYPE", std::string(op_.params[position].name) + " has to be " + expected);
}

double Arguments::number(size_t position) const {
  const Value given = value(position);
  if (given.tag != Tag::Int && given.tag != Tag::Float && given.tag != Tag::Bool) {
    wrong(position, kind_name(op_.params[position].kind));
  }
  return given.number;
}

int Arguments::integer(size_t position) const {
  const double given = number(position);
  if (std::nearbyint(given) != given || std::abs(given) > 2147483647.0) {
    wrong(position, "a 32-bit integer");
  }
  return static_cast<int>(given);
}

const double* Arguments::list_at(const Value& value) const {
  const double start = value.number;
  if (!(start >= 0) || start + value.size > list_.list_size) {
    throw CodedError("PROGRAM", "a list argument lies outside the list area");
  }
  return list_.lists + static_cast<size_t>(start);
}

std::vector<int> Arguments::integer_list(size_t position) const {
  const Value given = value(position);
  if (given.tag != Tag::Ints) wrong(position, "a list of integers");
  const double* numbers = list_at(given);
  std::vector<int> list(given.size);
  for (uint32_t i = 0; i < given.size; ++i) {
    if (std::nearbyint(numbers[i]) != numbers[i] || std::abs(numbers[i]) > 2147483647.0) {
      wrong(position, "a list of 32-bit integers");
    }
    list[i] = static_cast<int>(numbers[i]);
  }
  return list;
}

std::vector<mx::array> Arguments::array_list(size_t position) const {
  const Value given = value(position);
  if (given.tag != Tag::Arrays) wrong(position, "a list of arrays");
  const double* ids = list_at(given);
  std::vector<mx::array> list;
  list.reserve(given.size);
  for (uint32_t i = 0; i < given.size; ++i) list.push_back(arrays_.at(ids[i]));
  return list;
}

std::string Arguments::text(size_t position) const {
  const Value given = value(position);
  if (given.tag == Tag::None && op_.params[position].fallback_text) {
    return op_.params[position].fallback_text;
  }
  if (given.tag != Tag::String) wrong(position, "a string");
  if (!(given.number >= 0 && given.number <= UINT32_MAX)) {
    throw CodedError("PROGRAM", "no string has this number");
  }
  const std::string& text = interned(static_cast<uint32_t>(given.number));
  const auto& choices = op_.params[position].choices;
  if (!choices.empty() && std::ranges::find(choices, text) == choices.end()) {
    wrong(position, listed(choices).c_str());
  }
  return text;
}

mx::Dtype Arguments::dtype(size_t position) const {
  const Value given = value(position);
  if (given.tag != Tag::Dtype || !(given.number >= 0 && given.number < dtypes.size())) {
    wrong(position, "a dtype");
  }
  return dtypes[static_cast<size_t>(given.number)].dtype;
}

mx::array Arguments::array(size_t position) const {
  const Value given = value(position);
  if (given.tag == Tag::Array) return arrays_.at(given.number);
  const bool scalar = given.tag == Tag::Int || given.tag == Tag::Float || given.tag == Tag::Bool;
  if (!scalar || !op_.params[position].operand) wrong(position, kind_name(Kind::Array));
  const mx::Dtype dtype = operand_dtype(given.number, given.tag == Tag::Bool);
  // From an integer, since turning a double into a type that is too small for it is undefined.
  const bool whole = mx::issubdtype(dtype, mx::integer) && given.number < 0x1p63;
  return whole ? mx::array(static_cast<int64_t>(given.number), dtype)
               : mx::array(given.number, dtype);
}

// A JavaScript number is a "weak" scalar, as Python's are in MLX: it takes the dtype of the arrays
// it meets, but never turns a fraction, or what no integer type holds, into an integer.
mx::Dtype Arguments::operand_dtype(double scalar, bool is_bool) const {
  std::optional<mx::Dtype> others;
  for (size_t i = 0; i < op_.params.size() && i < list_.count; ++i) {
    if (!op_.params[i].operand || list_.values[i].tag != Tag::Array) continue;
    const mx::Dtype other = arrays_.at(list_.values[i].number).dtype();
    others = others ? mx::promote_types(*others, other) : other;
  }
  if (is_bool) return mx::bool_;
  if (others && mx::issubdtype(*others, mx::inexact)) return *others;
  const double limit = others == mx::uint64 ? 0x1p64 : 0x1p63;
  const bool whole = std::nearbyint(scalar) == scalar && scalar >= -0x1p63 && scalar < limit;
  if (!whole) return mx::float32;
  if (others && *others != mx::bool_) return *others;
  return others ? mx::int32 : mx::float32;
}

bool Arguments::any_tracer() const {
  for (uint32_t i = 0; i < list_.count; ++i) {
    const Value& given = list_.values[i];
    if (given.tag == Tag::Array && arrays_.at(given.number).is_tracer()) return true;
    if (given.tag != Tag::Arrays) continue;
    const double* ids = list_at(given);
    for (uint32_t k = 0; k < given.size; ++k) {
      if (arrays_.at(ids[k]).is_tracer()) return true;
    }
  }
  return false;
}

}  // namespace mlx_runners
