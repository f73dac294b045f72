// The op table: how a row names an MLX function, and how a call's values become its arguments.
//
// A row is one line: op("softmax", "doc", select<R(A...)>(mx::softmax), arg("a"), opt("axes",
// none), …). Names and defaults stand in the row because function pointers lose them; the number
// of names, and the type of each default, are checked at compile time. The code that unpacks
// arguments is one function per *signature*, shared by all rows that have it.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/array_table.h"
#include "core/value.h"
#include "mlx/array.h"
#include "mlx/utils.h"

namespace mlx_runners {

namespace mx = mlx::core;

enum class Kind : uint8_t {
  Array,
  Arrays,
  Int,
  Float,
  Bool,
  Ints,
  Axes,  // a number, a list of numbers, or nothing for "all"
  Dtype,
  String,
};

// Axes of a reduction; nothing means all of them.
using Axes = std::optional<std::vector<int>>;

// An argument that is known when the graph is built, or computed by it.
using IntOrArray = std::variant<int, mx::array>;

struct None {};
inline constexpr None none;

struct Param {
  const char* name;
  Kind kind;
  bool operand;   // accepts a JavaScript number, which takes the dtype of the other operands
  bool nullable;  // may be given as nothing although it has no default value
  bool optional;
  Value fallback;                    // numbers, booleans and dtypes
  const char* fallback_text;         // strings
  std::vector<std::string> choices;  // the only strings that are taken, if any
};

struct Op;
using AnyFn = void (*)();

// The arguments of one call, read by position and type.
class Arguments {
 public:
  Arguments(const Op& op, ValueList list, const ArraySource& arrays)
      : op_(op), list_(list), arrays_(arrays) {}

  template <class T>
  T get(size_t position) const;

  // True when an array argument belongs to a transform being traced.
  bool any_tracer() const;

 private:
  Value value(size_t position) const;
  bool given(size_t position) const;
  double number(size_t position) const;
  int integer(size_t position) const;
  mx::array array(size_t position) const;
  std::vector<mx::array> array_list(size_t position) const;
  std::vector<int> integer_list(size_t position) const;
  std::string text(size_t position) const;
  mx::Dtype dtype(size_t position) const;
  mx::Dtype operand_dtype(double scalar, bool is_bool) const;
  const double* list_at(const Value& value) const;
  [[noreturn]] void wrong(size_t position, const char* expected) const;

  const Op& op_;
  ValueList list_;
  const ArraySource& arrays_;
};

using Thunk = void (*)(AnyFn, const Arguments&, mx::Stream, std::vector<mx::array>& results);

struct Op {
  const char* name;
  const char* doc;
  AnyFn function;
  Thunk thunk;
  bool many;  // returns a list of arrays
  std::vector<Param> params;
  AnyFn cpu_kernel = nullptr;  // replaces `function` on the CPU, outside transforms and exports
  AnyFn in_place = nullptr;    // replaces both in programs, where nothing else reads argument 0

  // Names the fused kernel that does this row's work on the CPU; its signature is the row's.
  template <class R, class... A>
  Op on_cpu(R (*kernel)(A...)) && {
    cpu_kernel = reinterpret_cast<AnyFn>(kernel);
    return std::move(*this);
  }

  // Names what writes into its first argument; its signature is the row's.
  template <class R, class... A>
  Op updating(R (*function)(A...)) && {
    in_place = reinterpret_cast<AnyFn>(function);
    return std::move(*this);
  }

  void call(ValueList values, const ArraySource& arrays, mx::Stream stream,
            std::vector<mx::array>& results, bool update = false) const;
};

// Strings are passed by number.
uint32_t intern(const std::string& text);
const std::string& interned(uint32_t number);

// All rows; the position of a row is its number for this build.
const std::vector<Op>& op_table();

// ---- building rows -------------------------------------------------------------------------

template <class T>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<T, mx::array> || std::is_same_v<T, IntOrArray>)
    return Kind::Array;
  else if constexpr (std::is_same_v<T, std::vector<mx::array>>)
    return Kind::Arrays;
  else if constexpr (std::is_same_v<T, bool>)
    return Kind::Bool;
  else if constexpr (std::is_same_v<T, int>)
    return Kind::Int;
  else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    return Kind::Float;
  else if constexpr (std::is_same_v<T, mx::Shape> || std::is_same_v<T, std::vector<int>>)
    return Kind::Ints;
  else if constexpr (std::is_same_v<T, mx::Dtype>)
    return Kind::Dtype;
  else if constexpr (std::is_same_v<T, std::string>)
    return Kind::String;
  else
    static_assert(sizeof(T) == 0, "no argument of this type is known: add it to kind_of and get");
}

template <class T>
struct Unwrapped {
  using type = T;
  static constexpr bool nullable = false;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
  static constexpr bool nullable = true;
};

template <class D>
struct Name {
  const char* name;
  bool operand = false;
  D fallback;
  const char* choices = nullptr;

  // The only values of a string: "exact|fast".
  constexpr Name one_of(const char* values) const { return {name, operand, fallback, values}; }
};
struct Required {};

constexpr Name<Required> arg(const char* name) { return {name, false, {}}; }
constexpr Name<Required> operand(const char* name) { return {name, true, {}}; }
template <class D>
constexpr Name<D> opt(const char* name, D fallback) {
  return {name, false, fallback};
}
constexpr Name<None> opt_operand(const char* name) { return {name, true, {}}; }

// Picks one overload by its signature.
template <class F>
constexpr F* select(F* function) {
  return function;
}

// "exact|fast" -> "exact", "fast"
std::vector<std::string> split_choices(const char* choices);

template <class Argument, class D>
Param make_param(Name<D> name) {
  using T = std::decay_t<Argument>;
  using U = Unwrapped<T>;
  constexpr bool required = std::is_same_v<D, Required>;
  constexpr bool takes_int = std::is_same_v<T, IntOrArray>;
  const bool operand = name.operand || takes_int;
  Param param{name.name, Kind::Array, operand, U::nullable, !required, {}, nullptr, {}};
  if (name.choices) param.choices = split_choices(name.choices);
  if constexpr (std::is_same_v<T, Axes>)
    param.kind = Kind::Axes;
  else
    param.kind = kind_of<typename U::type>();

  if constexpr (std::is_same_v<D, None>) {
    static_assert(U::nullable, "only an optional argument may default to nothing");
  } else if constexpr (std::is_same_v<D, const char*>) {
    static_assert(std::is_same_v<typename U::type, std::string>);
    param.fallback_text = name.fallback;
  } else if constexpr (std::is_same_v<D, mx::Dtype>) {
    static_assert(std::is_same_v<typename U::type, mx::Dtype>);
    param.fallback = {Tag::Dtype, 0, static_cast<double>(static_cast<int>(name.fallback.val()))};
  } else if constexpr (!required) {
    static_assert(std::is_same_v<D, typename U::type> ||
                      ((takes_int || std::is_same_v<T, Axes>) && std::is_same_v<D, int>),
                  "the default has another type than the argument");
    constexpr Tag tag = std::is_same_v<D, bool> ? Tag::Bool
                        : std::is_integral_v<D> ? Tag::Int
                                                : Tag::Float;
    param.fallback = {tag, 0, static_cast<double>(name.fallback)};
  }
  return param;
}

inline void append(std::vector<mx::array>& results, mx::array array) {
  results.push_back(std::move(array));
}
inline void append(std::vector<mx::array>& results, std::vector<mx::array> arrays) {
  results = std::move(arrays);
}
template <class... T>
void append(std::vector<mx::array>& results, std::tuple<T...> arrays) {
  std::apply([&](auto&&... each) { (results.push_back(std::move(each)), ...); }, std::move(arrays));
}
inline void append(std::vector<mx::array>& results, std::pair<mx::array, mx::array> arrays) {
  results.push_back(std::move(arrays.first));
  results.push_back(std::move(arrays.second));
}

template <class R, class... A>
struct Signature {
  static constexpr size_t count = sizeof...(A) - 1;  // the last argument is the stream
  template <size_t I>
  using At = std::tuple_element_t<I, std::tuple<A...>>;

  static void thunk(AnyFn function, const Arguments& arguments, mx::Stream stream,
                    std::vector<mx::array>& results) {
    call(reinterpret_cast<R (*)(A...)>(function), arguments, stream, results,
         std::make_index_sequence<count>());
  }

  template <size_t... I>
  static void call(R (*function)(A...), const Arguments& arguments, mx::Stream stream,
                   std::vector<mx::array>& results, std::index_sequence<I...>) {
    append(results, function(arguments.get<std::decay_t<At<I>>>(I)..., stream));
  }

  template <class... N, size_t... I>
  static std::vector<Param> params(std::tuple<N...> names, std::index_sequence<I...>) {
    return {make_param<At<I>>(std::get<I>(names))...};
  }
};

template <class R, class... A, class... N>
Op op(const char* name, const char* doc, R (*function)(A...), N... names) {
  using S = Signature<R, A...>;
  static_assert(
      std::is_same_v<std::tuple_element_t<S::count, std::tuple<A...>>, mx::StreamOrDevice>,
      "an op's last argument is the stream");
  static_assert(sizeof...(N) == S::count, "one name per argument, the stream excepted");
  return {name,
          doc,
          reinterpret_cast<AnyFn>(function),
          &S::thunk,
          !std::is_same_v<R, mx::array>,
          S::params(std::make_tuple(names...), std::make_index_sequence<S::count>())};
}

// ---- reading arguments ---------------------------------------------------------------------

template <class T>
T Arguments::get(size_t position) const {
  if constexpr (std::is_same_v<T, Axes>) {
    if (!given(position)) return std::nullopt;
    if (value(position).tag == Tag::Ints) return integer_list(position);
    return std::vector<int>{integer(position)};
  } else if constexpr (std::is_same_v<T, IntOrArray>) {
    if (value(position).tag == Tag::Array) return array(position);
    return integer(position);
  } else if constexpr (Unwrapped<T>::nullable) {
    if (!given(position)) return std::nullopt;
    return get<typename Unwrapped<T>::type>(position);
  } else {
    constexpr Kind kind = kind_of<T>();
    if constexpr (kind == Kind::Array)
      return array(position);
    else if constexpr (kind == Kind::Arrays)
      return array_list(position);
    else if constexpr (kind == Kind::Bool)
      return number(position) != 0;
    else if constexpr (std::is_same_v<T, int>)
      return integer(position);
    else if constexpr (kind == Kind::Float)
      return static_cast<T>(number(position));
    else if constexpr (std::is_same_v<T, std::vector<int>>)
      return integer_list(position);
    else if constexpr (kind == Kind::Ints) {
      const auto list = integer_list(position);
      return mx::Shape(list.begin(), list.end());
    } else if constexpr (kind == Kind::Dtype)
      return dtype(position);
    else
      return text(position);
  }
}

}  // namespace mlx_runners
