// Writing methods in the format of MLX's own exporter (mlx/export.h), which MLX runs from Python,
// Swift and C++.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "program/program.h"

namespace mlx_runners::program {

// A file that holds one method at some sizes. MLX chooses between them by the shapes of a call's
// arguments, knows no states, and takes nothing but arrays. So states are arguments and results,
// and a dimension that no input's shape has is an argument too: an array of that length, whose
// values don't matter. All arguments are given by name.
struct MlxfnFile {
  std::string path;
  uint32_t method = 0;
  std::vector<std::vector<double>> sizes;  // values of the method's dimensions
  std::vector<uint32_t> dimensions;        // those that are arguments
  std::vector<uint32_t> states;            // arguments; other states are zeros
  std::vector<uint32_t> next_states;       // results after the method's outputs
  const std::atomic<bool>* cancelled = nullptr;
};

// With the lane held, of which `stream` is one: it tells the device that the file is for. What is
// written when it throws is of no use. Throws CodedErrors that name the instruction; "SHAPE" for
// sizes that the method doesn't take.
void write_mlxfn(const Program& program, Lane& lane, mx::Stream stream, const MlxfnFile& file);

}  // namespace mlx_runners::program
