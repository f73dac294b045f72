#include "kernels/cpu/pool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
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
// Long enough to bridge the gap between two ops of one graph, short enough not to burn a quota.
constexpr auto kSpin = std::chrono::microseconds(20);

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
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) {
        return true;
      }
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

// Jobs are recycled and never freed: a worker may still be inside `leave` after the caller has
// gone on.
struct Job {
  const RangeFn* fn = nullptr;
  int64_t n = 0;
  int64_t grain = 1;
  int64_t pieces = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int> active{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex mutex;
  std::condition_variable finished;

  void start(int64_t total, int64_t piece, int64_t count, const RangeFn& function) {
    fn = &function;
    n = total;
    grain = piece;
    pieces = count;
    next.store(0, std::memory_order_relaxed);
    failed.store(false, std::memory_order_relaxed);
    error = nullptr;
  }

  bool has_pieces() const { return next.load(std::memory_order_relaxed) < pieces; }

  void run() {
    for (;;) {
      const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= pieces) {
        return;
      }
      if (failed.load(std::memory_order_relaxed)) {
        continue;
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
  }

  void leave() {
    if (active.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard lock(mutex);
      finished.notify_one();
    }
  }

  void wait_for_workers() {
    const auto done = [this] { return active.load(std::memory_order_acquire) == 0; };
    if (spin_until(done)) {
      return;
    }
    std::unique_lock lock(mutex);
    finished.wait(lock, done);
  }
};

class Pool {
 public:
  void run(Job& job) {
    post(job);
    job.run();
    withdraw(job);
    job.wait_for_workers();
  }

  Job& take_job() {
    std::lock_guard lock(mutex_);
    if (spare_jobs_.empty()) {
      return *new Job;
    }
    Job* job = spare_jobs_.back();
    spare_jobs_.pop_back();
    return *job;
  }

  void give_back(Job& job) {
    std::lock_guard lock(mutex_);
    spare_jobs_.push_back(&job);
  }

  void resize(int workers) {
    {
      std::lock_guard lock(mutex_);
      target_ = workers;
      epoch_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
  }

 private:
  void post(Job& job) {
    int wake = 0;
    {
      std::lock_guard lock(mutex_);
      target_ = threads() - 1;
      start_workers();
      jobs_.push_back(&job);
      epoch_.fetch_add(1, std::memory_order_release);
      wake = static_cast<int>(std::min<int64_t>(job.pieces - 1, sleepers_));
    }
    for (; wake > 0; --wake) {
      wake_.notify_one();
    }
  }

  void withdraw(Job& job) {
    std::lock_guard lock(mutex_);
    std::erase(jobs_, &job);
  }

  void start_workers() {
    running_.resize(std::max<size_t>(running_.size(), static_cast<size_t>(target_)), false);
    for (int i = 0; i < target_; ++i) {
      if (!running_[i]) {
        running_[i] = start_worker(i);
      }
    }
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
    std::unique_lock lock(mutex_);
    while (index < target_) {
      if (Job* job = find_job()) {
        job->active.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        job->run();
        job->leave();
        lock.lock();
        continue;
      }
      const uint64_t seen = epoch_.load(std::memory_order_relaxed);
      const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
      lock.unlock();
      spin_until(changed);
      lock.lock();
      ++sleepers_;
      wake_.wait(lock, changed);
      --sleepers_;
    }
    running_[index] = false;
  }

  Job* find_job() {
    for (Job* job : jobs_) {
      if (job->has_pieces()) {
        return job;
      }
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job*> jobs_;
  std::vector<Job*> spare_jobs_;
  std::vector<bool> running_;
  int target_ = 0;
  int sleepers_ = 0;
  std::atomic<uint64_t> epoch_{0};
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
    // Still piece by piece: callers size their scratch by the grain.
    for (int64_t begin = 0; begin < n; begin += grain) {
      fn(begin, std::min(n, begin + grain));
    }
    return;
  }
  Pool& shared = pool();
  Job& job = shared.take_job();
  job.start(n, grain, pieces, fn);
  shared.run(job);
  const std::exception_ptr error = std::exchange(job.error, nullptr);
  shared.give_back(job);
  if (error) {
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
    existing->resize(thread_count.load() - 1);
  }
}

}  // namespace mlx_runners::cpu
