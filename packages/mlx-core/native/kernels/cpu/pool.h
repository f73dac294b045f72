#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace mlx_runners::cpu {

/// Reference to a callable `void(int64_t begin, int64_t end)`; the callable must outlive it.
class RangeFn {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFn>)
  RangeFn(F&& fn)
      : context_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* context, int64_t begin, int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
        }) {}

  void operator()(int64_t begin, int64_t end) const { call_(context_, begin, end); }

 private:
  void* context_;
  void (*call_)(void*, int64_t, int64_t);
};

/// Runs `fn` over [0, n) in pieces of at most `grain` indices and returns when all are done.
///
/// Pieces are handed out by an atomic counter to the calling thread and to whichever workers are
/// free, so no piece waits for a particular thread: a preempted worker delays only the piece it
/// holds, and a caller that finds every worker busy does the whole job itself. May be called from
/// several threads at once and from inside a piece. The first exception that a piece throws skips
/// the pieces not yet started and is rethrown here.
void parallel_for(int64_t n, int64_t grain, RangeFn fn);

/// Threads that share a job, the caller included.
int threads();

/// Sets the number of threads (clamped to 1..256); the default is `available_cpus()`.
void set_threads(int count);

/// CPUs this process may use: its affinity mask, cut by the cgroup (v2 or v1) CPU quota.
int available_cpus();

}  // namespace mlx_runners::cpu
