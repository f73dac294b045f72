// The element types of GGUF tensors, by the numbers that files have for them.
// Source: ggml.h of ggml-org/ggml and gguf-py 0.19.0.
#pragma once

#include <cstdint>
#include <string_view>

namespace mlx_runners {

struct GgmlType {
  enum class Kind {
    Plain,   // numbers of one of MLX's dtypes
    Blocks,  // of quant/block_format.h: bytes for MLX
    Other,   // there are such files, but nothing here computes with them
  };

  uint32_t number;
  std::string_view name;
  int weights;  // of a block
  int bytes;
  Kind kind;
  std::string_view dtype;  // as src/dtype.ts has it
};

/// Nothing for numbers that no type has, or none has any more.
const GgmlType* ggml_type(uint32_t number);

}  // namespace mlx_runners
