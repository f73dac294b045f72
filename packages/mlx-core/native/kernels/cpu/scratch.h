#pragma once

#include <cstddef>

namespace mlx_runners::cpu {

/// A block of working memory, 64-byte aligned and uninitialised, taken from a process-wide cache of
/// blocks: kernels that need megabytes per call don't page-fault them in each time.
class Scratch {
 public:
  explicit Scratch(size_t floats);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace mlx_runners::cpu
