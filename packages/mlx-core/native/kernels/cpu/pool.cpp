#include "kernels/cpu/pool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mlx_runners::cpu {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxJobs = 64;  // at a time; callers beyond do their job alone
constexpr size_t kCacheLine = 64;

// How long a thread without work looks out for more before it sleeps. Waking it costs some 50 us,
// more than most ops of a decode step take, and the gaps between those are shorter than this.
constexpr auto kSpin = std::chrono::microseconds(100);
// After this much of it, other programs' threads are let go first.
constexpr auto kEagerSpin = std::chrono::microseconds(20);

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done` holds or the spin time is over; returns whether it holds.
template <typename Done>
bool spin_until(const Done& done) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (done()) {
        return true;
      }
      relax();
    }
    const auto passed = Clock::now() - start;
    if (passed > kSpin) {
      return done();
    }
    if (passed > kEagerSpin) {
      sched_yield();
    }
  }
}

/// The CPU that this thread runs on; -1 where there is no telling.
int current_cpu() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

/// Moves this thread away from `cpu`. A worker may be woken where its caller runs and stay there,
/// the two taking turns, as long as other programs keep the other CPUs busy with whatever little.
void leave_cpu([[maybe_unused]] int cpu) {
#if defined(__linux__)
  cpu_set_t allowed;
  if (cpu < 0 || sched_getcpu() != cpu || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return;
  }
  cpu_set_t others = allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0) {
    sched_setaffinity(0, sizeof(allowed), &allowed);
  }
#endif
}

struct alignas(kCacheLine) Job {
  int cpu = -1;  // the caller's
  const RangeFn* fn = nullptr;
  int64_t n = 0;
  int64_t grain = 1;
  int64_t pieces = 0;
  std::exception_ptr error;
  std::atomic<bool> failed{false};
  std::mutex mutex;  // of `error` and `finished`
  std::condition_variable finished;
  // On cache lines of their own: all threads write to them.
  alignas(kCacheLine) std::atomic<int64_t> next{0};
  alignas(kCacheLine) std::atomic<int> active{0};  // workers that may be looking at the job

  void start(int64_t total, int64_t piece, int64_t count, const RangeFn& function) {
    cpu = current_cpu();
    fn = &function;
    n = total;
    grain = piece;
    pieces = count;
    error = nullptr;
    failed.store(false, std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
  }

  void run_piece(int64_t i) {
    if (failed.load(std::memory_order_relaxed)) {
      return;
    }
    try {
      (*fn)(i* grain, std::min(n, (i + 1) * grain));
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) {
        error = std::current_exception();
      }
      failed.store(true, std::memory_order_relaxed);
    }
  }

  void enter() { active.fetch_add(1); }

  void leave() {
    if (active.fetch_sub(1) == 1) {
      std::lock_guard lock(mutex);
      finished.notify_one();
    }
  }

  void wait_for_workers() {
    const auto done = [this] { return active.load() == 0; };
    if (spin_until(done)) {
      return;
    }
    std::unique_lock lock(mutex);
    finished.wait(lock, done);
  }
};

// Jobs are slots of a fixed table, named by bits: posting one and finding one take no lock. A bit
// in `open_` says that the job has pieces left; whoever takes the last one clears it.
//
// A worker enters a job (`active`) and only then looks whether it is still open, the thread that
// takes the last piece first closes the job and then leaves it: so either the worker sees that it
// came too late, or the caller sees that it has to wait for it. This, and the same play between
// `open_` and `sleepers_`, needs the sequentially consistent order, which is the atomics' default.
class Pool {
 public:
  /// Runs a job to its end; returns the first exception of its pieces.
  std::exception_ptr run(int64_t n, int64_t grain, int64_t pieces, const RangeFn& fn) {
    start_missing_workers();
    const int slot = claim();
    if (slot < 0) {
      run_alone(n, grain, fn);
      return nullptr;
    }
    Job& job = jobs_[slot];
    job.start(n, grain, pieces, fn);
    open_.fetch_or(bit(slot));
    wake(pieces - 1);
    take_pieces(slot);
    job.wait_for_workers();
    std::exception_ptr error = std::exchange(job.error, nullptr);
    claimed_.fetch_and(~bit(slot), std::memory_order_release);
    return error;
  }

  static void run_alone(int64_t n, int64_t grain, const RangeFn& fn) {
    // Still piece by piece: callers size their scratch by the grain.
    for (int64_t begin = 0; begin < n; begin += grain) {
      fn(begin, std::min(n, begin + grain));
    }
  }

  /// Has `threads() - 1` workers from now on; those too many end.
  void resize() {
    {
      std::lock_guard lock(mutex_);
      target_ = threads() - 1;
      complete_ = false;
    }
    wake_.notify_all();
  }

 private:
  static constexpr uint64_t bit(int slot) { return uint64_t{1} << slot; }

  int claim() {
    uint64_t claimed = claimed_.load(std::memory_order_relaxed);
    while (~claimed != 0) {
      const int slot = std::countr_one(claimed);
      if (claimed_.compare_exchange_weak(claimed, claimed | bit(slot), std::memory_order_acquire)) {
        return slot;
      }
    }
    return -1;
  }

  void take_pieces(int slot) {
    Job& job = jobs_[slot];
    for (;;) {
      const int64_t i = job.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= job.pieces) {
        return;
      }
      if (i == job.pieces - 1) {
        open_.fetch_and(~bit(slot));
      }
      job.run_piece(i);
    }
  }

  void wake(int64_t wanted) {
    const int sleeping = sleepers_.load();
    if (sleeping == 0) {
      return;
    }
    // Whoever is about to sleep has seen the open job, or is waiting once this lock is had.
    {
      std::lock_guard lock(mutex_);
    }
    if (wanted >= sleeping) {
      wake_.notify_all();
      return;
    }
    for (; wanted > 0; --wanted) {
      wake_.notify_one();
    }
  }

  void start_missing_workers() {
    if (complete_.load(std::memory_order_relaxed)) {
      return;
    }
    std::lock_guard lock(mutex_);
    target_ = threads() - 1;
    running_.resize(std::max<size_t>(running_.size(), static_cast<size_t>(target_)), false);
    bool complete = true;
    for (int i = 0; i < target_; ++i) {
      if (!running_[i]) {
        running_[i] = start_worker(i);
      }
      complete = complete && running_[i];
    }
    complete_ = complete;
  }

  bool start_worker(int index) {
    // Signals belong to the application's threads: workers are born with all of them blocked.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
      std::thread([this, index] { work(index); }).detach();
    } catch (const std::system_error&) {
      started = false;  // Out of threads: the callers do the work.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }

  void work(int index) {
    const auto superfluous = [&] { return index >= target_.load(std::memory_order_relaxed); };
    const auto called = [&] { return open_.load() != 0 || superfluous(); };
    for (;;) {
      if (superfluous()) {
        std::lock_guard lock(mutex_);
        if (superfluous()) {
          running_[index] = false;
          return;
        }
      }
      if (const uint64_t open = open_.load()) {
        help(pick(open, index));
      } else if (!spin_until(called)) {
        std::unique_lock lock(mutex_);
        ++sleepers_;
        wake_.wait(lock, called);
        --sleepers_;
      }
    }
  }

  /// Workers look through the open jobs from different ends, so that none is left out.
  static int pick(uint64_t open, int index) {
    const int first = index % kMaxJobs;
    return (std::countr_zero(std::rotr(open, first)) + first) % kMaxJobs;
  }

  void help(int slot) {
    Job& job = jobs_[slot];
    job.enter();
    if ((open_.load() & bit(slot)) != 0) {
      leave_cpu(job.cpu);
      take_pieces(slot);
    }
    job.leave();
  }

  alignas(kCacheLine) std::atomic<uint64_t> open_{0};
  alignas(kCacheLine) std::atomic<uint64_t> claimed_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<int> target_{0};
  std::atomic<bool> complete_{false};  // every worker that is wanted runs
  std::mutex mutex_;                   // of what follows, and of changes of target_
  std::condition_variable wake_;
  std::vector<bool> running_;
  Job jobs_[kMaxJobs];
};

std::atomic<int> thread_count{0};
std::atomic<Pool*> current_pool{nullptr};

// Detached workers run this library's code until the process ends, so it must never be unmapped.
void pin_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&pin_library), &info) != 0 && info.dli_fname != nullptr) {
    dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

// The pool is leaked on purpose: workers may outlive every static destructor. A forked child has
// none of the workers and perhaps a locked mutex, so it starts with a pool of its own.
Pool& pool() {
  Pool* existing = current_pool.load(std::memory_order_acquire);
  if (existing != nullptr) {
    return *existing;
  }
  static std::once_flag once;
  std::call_once(once, [] {
    pin_library();
    pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });
  });
  auto fresh = std::make_unique<Pool>();
  if (current_pool.compare_exchange_strong(existing, fresh.get(), std::memory_order_acq_rel)) {
    return *fresh.release();
  }
  return *existing;
}

}  // namespace

void parallel_for(int64_t n, int64_t grain, RangeFn fn) {
  if (n <= 0) {
    return;
  }
  grain = std::max<int64_t>(grain, 1);
  const int64_t pieces = (n - 1) / grain + 1;
  if (pieces == 1 || threads() == 1) {
    Pool::run_alone(n, grain, fn);
  } else if (const std::exception_ptr error = pool().run(n, grain, pieces, fn)) {
    std::rethrow_exception(error);
  }
}

int threads() {
  const int count = thread_count.load(std::memory_order_relaxed);
  if (count != 0) {
    return count;
  }
  int expected = 0;
  thread_count.compare_exchange_strong(expected, std::min(available_cpus(), kMaxThreads));
  return thread_count.load(std::memory_order_relaxed);
}

void set_threads(int count) {
  thread_count.store(std::clamp(count, 1, kMaxThreads));
  if (Pool* existing = current_pool.load(std::memory_order_acquire)) {
    existing->resize();
  }
}

}  // namespace mlx_runners::cpu
