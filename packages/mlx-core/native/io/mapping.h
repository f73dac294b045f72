// Files mapped into memory, each once per process whoever asks, and arrays that lie in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mlx/array.h"

namespace mlx_runners {

// The bytes of a file. Who has a file mapped that didn't change since shares it; the memory is
// given back when the last owner, mostly an array, lets go.
class Mapping {
 public:
  // Throws CodedError "CHECKPOINT" when there is no such file, or it can't be mapped.
  static std::shared_ptr<Mapping> open(const std::string& path);

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // A row-contiguous array whose elements start at a byte of the file; the caller has checked that
  // they lie inside. It shares the mapped memory where MLX's allocator allows that (on the CPU),
  // and is a copy elsewhere.
  static mlx::core::array array(const std::shared_ptr<Mapping>& file, size_t offset,
                                mlx::core::Shape shape, mlx::core::Dtype dtype);

  size_t size() const { return size_; }
  std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(data()), size_};
  }

  // Bytes of all files that are mapped now.
  static size_t total_bytes();

 private:
  struct Key;
  struct Registry;
  static Registry& registry();

  Mapping(int file, size_t size);
  char* data() const;
  // Pages that no longer count as this process's: while weights are widened at load, they would be
  // resident twice. Whoever still reads them gets them from the page cache again.
  void release_pages(size_t offset, size_t bytes) const;

  char* reserved_ = nullptr;  // a page in front of the file, then the file
  size_t size_;
};

}  // namespace mlx_runners
