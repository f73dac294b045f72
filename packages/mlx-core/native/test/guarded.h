// Arrays between pages that must not be touched: reading or writing past an end is a crash, with or
// without a sanitizer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>
#include <type_traits>

#include "harness.h"

namespace mlx_runners::testing {

/// Ends right before a forbidden page or starts right after one, as the case draws it; so its
/// alignment is the element's only.
template <class T>
class Guarded {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  Guarded(size_t count, std::mt19937_64& random) : count_(count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = count * sizeof(T);
    const size_t inside = (bytes + page - 1) / page * page;
    mapped_ = inside + 2 * page;
    void* address =
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(address);
    if (inside > 0) mprotect(base_ + page, inside, PROT_READ | PROT_WRITE);
    const bool at_end = draw(random, 0, 1) == 1;
    data_ = reinterpret_cast<T*>(base_ + page + (at_end ? inside - bytes : 0));
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  size_t size() const { return count_; }
  T& operator[](size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + count_; }

 private:
  size_t count_;
  size_t mapped_;
  char* base_;
  T* data_;
};

/// Numbers around 0 with a few decimals.
inline void fill_numbers(const Guarded<float>& array, std::mt19937_64& random, float range = 1.0f) {
  std::uniform_real_distribution<float> number(-range, range);
  for (float& value : array) value = number(random);
}

/// Checks |actual - expected| <= tolerance * (1 + |expected|).
inline void expect_near(double actual, double expected, double tolerance, const char* what) {
  if (std::abs(actual - expected) <= tolerance * (1 + std::abs(expected))) return;
  std::ostringstream message;
  message << what << " is " << actual << ", not " << expected;
  throw Failure(message.str());
}

/// For random sizes: mostly small, so that vectors' and tiles' edges come up, at times large.
inline int64_t draw_size(std::mt19937_64& random, int64_t small, int64_t large) {
  return draw(random, 1, draw(random, 0, 5) == 0 ? large : small);
}

/// Sets what the kernels run on. The level is that of MLX_RUNNERS_SIMD, once for the process.
void use_kernels(std::mt19937_64& random);

/// Skips the test when this CPU can't run the level that MLX_RUNNERS_SIMD asks for.
void require_level();

}  // namespace mlx_runners::testing
