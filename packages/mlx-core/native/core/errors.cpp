#include "core/errors.h"

#include <new>
#include <string_view>

namespace mlx_runners {

const char* code_of(const std::exception& error) {
  if (auto* coded = dynamic_cast<const CodedError*>(&error)) return coded->code();
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "MEMORY";
  const std::string_view what = error.what();
  const auto says = [&](std::string_view word) {
    return what.find(word) != std::string_view::npos;
  };
  if (says("type") || says("Type") || says("complex64")) return "DTYPE";
  // Before an op is built MLX checks its arguments and mostly throws std::invalid_argument; what
  // fails later (allocation, evaluation) is a std::runtime_error.
  const bool is_argument = dynamic_cast<const std::logic_error*>(&error) != nullptr;
  // Indices that are computed with what they point into are checked then (ops/indices.cpp).
  const bool shape = is_argument || says("Shape dimension") || says("is outside an axis");
  return shape ? "SHAPE" : "NATIVE";
}

}  // namespace mlx_runners
