// The dimensions of a call: from the shapes of its inputs, or given.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace mlx_runners::program {

// Fills `dimensions` and `sizes`. Returns why the trace does not fit the call; empty when it does.
std::string bind_dimensions(const Program& program, const Method& method, const Trace& trace,
                            std::span<const mx::array> inputs, std::span<const double> given,
                            std::vector<int64_t>& dimensions, std::vector<int64_t>& sizes);

// Fills `sizes`. Returns why the trace doesn't take these dimensions; empty when it does.
std::string check_dimensions(const Program& program, const Trace& trace,
                             std::span<const int64_t> dimensions, std::vector<int64_t>& sizes);

// A number as a dimension: whole and within 32 bits; else −1, which no trace takes.
int64_t dimension_of(double given);

// The smallest dimensions that a trace takes.
std::vector<int64_t> smallest_dimensions(const Trace& trace);

// `float32[2, 3]`
std::string in_words(const mx::array& array);

}  // namespace mlx_runners::program
