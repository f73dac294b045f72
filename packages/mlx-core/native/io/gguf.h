// The GGUF format, versions 2 and 3: metadata, and where tensors lie. Little-endian.
// Source: docs/gguf.md of ggml-org/ggml, and gguf.cpp where that leaves something open.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/ggml_types.h"

namespace mlx_runners {

enum class GgufType : uint32_t {
  UInt8,
  Int8,
  UInt16,
  Int16,
  UInt32,
  Int32,
  Float32,
  Bool,
  String,
  Array,
  UInt64,
  Int64,
  Float64,
};

/// Bytes of a number or a Bool.
int size_of(GgufType type);

/// Is told the metadata in the order of the file. Texts should be UTF-8, but needn't be; numbers
/// lie unaligned.
class GgufMetadata {
 public:
  virtual ~GgufMetadata() = default;
  virtual void key(std::string_view name) = 0;
  /// A value, or an element of a list. A Bool is 0 or 1.
  virtual void number(GgufType type, const uint8_t* bytes) = 0;
  virtual void text(std::string_view text) = 0;
  virtual void numbers(GgufType type, size_t count, const uint8_t* bytes) = 0;
  /// `count` texts or lists follow.
  virtual void begin_list(size_t count) = 0;
  virtual void end_list() = 0;
};

struct GgufTensor {
  std::string_view name;
  uint32_t type_number;
  const GgmlType* type;    // nothing for an unknown one
  std::vector<int> shape;  // row-major: the reverse of the file's order
  size_t start;            // a byte of the file; `bytes` from there belong to this tensor alone
  size_t bytes;            // 0 for an unknown type
};

/// Reads everything in front of the tensors' data, and checks that the data is there. All views are
/// into `file`. Needs memory in proportion to the file at most. Throws CodedError "CHECKPOINT",
/// whose message may hold bytes of the file, but no control characters.
std::vector<GgufTensor> read_gguf(std::span<const uint8_t> file, GgufMetadata& metadata);

}  // namespace mlx_runners
