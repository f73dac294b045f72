#include "program/dimensions.h"

#include <algorithm>
#include <cmath>

#include "core/dtypes.h"

namespace mlx_runners::program {
namespace {

constexpr int64_t unknown = -1;

std::string type_in_words(mx::Dtype dtype, std::span<const int64_t> shape) {
  constexpr size_t named = 16;  // axes; arrays have fewer, damaged programs thousands
  std::string text = std::string(dtypes[dtype_number(dtype)].name) + "[";
  for (size_t axis = 0; axis < std::min(shape.size(), named); ++axis) {
    text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
  }
  if (shape.size() <= named) return text + "]";
  return text + ", … " + std::to_string(shape.size()) + " axes]";
}

std::string wrong_dimension(const Dimension& dimension, int64_t value) {
  const auto& [min, max, multiple_of, name] = dimension;
  if (value == unknown) return "the dimension " + name + " has to be given";
  const std::string is = "the dimension " + name + " is " + std::to_string(value);
  if (value < min || value > max) {
    return is + ", and has to lie between " + std::to_string(min) + " and " + std::to_string(max);
  }
  if (value % multiple_of != 0) return is + ", no multiple of " + std::to_string(multiple_of);
  return "";
}

}  // namespace

std::string in_words(const mx::array& array) {
  const std::vector<int64_t> shape(array.shape().begin(), array.shape().end());
  return type_in_words(array.dtype(), shape);
}

int64_t dimension_of(double given) {
  const bool whole = given >= 0 && given <= 2147483647 && std::nearbyint(given) == given;
  return whole ? static_cast<int64_t>(given) : unknown;
}

std::string check_dimensions(const Program& program, const Trace& trace,
                             std::span<const int64_t> dimensions, std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (auto why = wrong_dimension(trace.dimensions[i], dimensions[i]); !why.empty()) return why;
  }
  trace.sizes.evaluate(dimensions, sizes);
  for (const auto& [size, max, text] : trace.limits) {
    if (sizes[size] > max) {
      return program.texts[text] + " is " + std::to_string(sizes[size]) + ", and may be at most " +
             std::to_string(max);
    }
  }
  return "";
}

std::string bind_dimensions(const Program& program, const Method& method, const Trace& trace,
                            std::span<const mx::array> inputs, std::span<const double> given,
                            std::vector<int64_t>& dimensions, std::vector<int64_t>& sizes) {
  dimensions.assign(trace.dimensions.size(), unknown);
  if (given.size() > dimensions.size()) return "it takes fewer dimensions";
  std::transform(given.begin(), given.end(), dimensions.begin(), dimension_of);
  if (inputs.size() != trace.inputs.size()) {
    return "it takes " + std::to_string(trace.inputs.size()) + " inputs";
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [dtype, shape] = trace.inputs[i].type;
    if (inputs[i].dtype() != dtype || inputs[i].ndim() != shape.size()) {
      return method.inputs[i] + " is " + in_words(inputs[i]) + ", and has to be " +
             dtypes[dtype_number(dtype)].name + " with " + std::to_string(shape.size()) + " axes";
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const SizeNode& size = trace.sizes.at(shape[axis]);
      if (size.op != SizeOp::Dimension) continue;
      int64_t& dimension = dimensions[size.a];
      if (dimension == unknown) dimension = inputs[i].shape(axis);
    }
  }
  if (auto why = check_dimensions(program, trace, dimensions, sizes); !why.empty()) return why;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [dtype, shape] = trace.inputs[i].type;
    std::vector<int64_t> wanted;
    for (const uint32_t size : shape) wanted.push_back(sizes[size]);
    if (!std::equal(wanted.begin(), wanted.end(), inputs[i].shape().begin())) {
      return method.inputs[i] + " is " + in_words(inputs[i]) + ", and has to be " +
             type_in_words(dtype, wanted);
    }
  }
  return "";
}

std::vector<int64_t> smallest_dimensions(const Trace& trace) {
  std::vector<int64_t> smallest;
  for (const auto& [min, max, multiple_of, name] : trace.dimensions) {
    smallest.push_back((min + multiple_of - 1) / multiple_of * multiple_of);
  }
  return smallest;
}

}  // namespace mlx_runners::program
