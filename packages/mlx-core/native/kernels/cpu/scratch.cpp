#include "kernels/cpu/scratch.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mlx_runners::cpu {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kCachedFloats = size_t{8} << 20;  // 32 MiB over all blocks
constexpr size_t kSmallBlock = 4096;               // floats; serves any smaller request

struct Block {
  float* data = nullptr;
  size_t capacity = 0;
};

/// Tells AddressSanitizer how many floats of a block are in use; the others must not be touched.
void mark_used([[maybe_unused]] const Block& block, [[maybe_unused]] size_t floats) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(block.data, floats * sizeof(float));
  ASAN_POISON_MEMORY_REGION(block.data + floats, (block.capacity - floats) * sizeof(float));
#endif
}

class Cache {
 public:
  /// The smallest cached block of at least `floats` that isn't wastefully large.
  Block take(size_t floats) {
    std::lock_guard lock(mutex_);
    size_t best = blocks_.size();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const size_t capacity = blocks_[i].capacity;
      if (capacity >= floats && (capacity <= kSmallBlock || capacity / 8 <= floats) &&
          (best == blocks_.size() || capacity < blocks_[best].capacity)) {
        best = i;
      }
    }
    if (best == blocks_.size()) {
      return {};
    }
    const Block block = blocks_[best];
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(best));
    cached_ -= block.capacity;
    return block;
  }

  /// Keeps `block`; the ones kept longest make room for it.
  void put(Block block) noexcept {
    std::lock_guard lock(mutex_);
    size_t dropped = 0;
    while (dropped < blocks_.size() && cached_ + block.capacity > kCachedFloats) {
      cached_ -= blocks_[dropped].capacity;
      std::free(blocks_[dropped].data);
      ++dropped;
    }
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(dropped));
    if (cached_ + block.capacity > kCachedFloats || !keep(block)) {
      std::free(block.data);
    }
  }

 private:
  bool keep(Block block) noexcept {
    try {
      blocks_.push_back(block);
    } catch (const std::bad_alloc&) {
      return false;
    }
    cached_ += block.capacity;
    return true;
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t cached_ = 0;
};

std::atomic<Cache*> current_cache{nullptr};

// Leaked on purpose, and renewed in a forked child, for the reasons given for the thread pool.
Cache& cache() {
  Cache* existing = current_cache.load(std::memory_order_acquire);
  if (existing != nullptr) {
    return *existing;
  }
  static std::once_flag once;
  std::call_once(once,
                 [] { pthread_atfork(nullptr, nullptr, [] { current_cache.store(nullptr); }); });
  auto fresh = std::make_unique<Cache>();
  if (current_cache.compare_exchange_strong(existing, fresh.get(), std::memory_order_acq_rel)) {
    return *fresh.release();
  }
  return *existing;
}

}  // namespace

Scratch::Scratch(size_t floats) {
  if (floats == 0) {
    return;
  }
  Block block = cache().take(floats);
  if (block.data == nullptr) {
    constexpr size_t unit = kAlignment / sizeof(float);
    block.capacity = (floats / unit + 1) * unit;
    block.data =
        static_cast<float*>(std::aligned_alloc(kAlignment, block.capacity * sizeof(float)));
    if (block.data == nullptr) {
      throw std::bad_alloc();
    }
  }
  mark_used(block, floats);
  data_ = block.data;
  capacity_ = block.capacity;
}

Scratch::~Scratch() {
  if (data_ != nullptr) {
    const Block block{data_, capacity_};
    mark_used(block, 0);
    cache().put(block);
  }
}

}  // namespace mlx_runners::cpu
