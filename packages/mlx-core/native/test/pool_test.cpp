// The thread pool of the CPU kernels. Made to be run under ThreadSanitizer as well.
#include "kernels/cpu/pool.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <vector>

#include "harness.h"
#include "kernels/cpu/scratch.h"
#include "threads.h"

using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

/// Writes every index once, by a job of `n` in pieces of `grain`, and counts what was missed.
int missed(int64_t n, int64_t grain) {
  std::vector<int64_t> seen(static_cast<size_t>(n), -1);
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    if (end - begin > grain) throw Failure("a piece is larger than the grain");
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] = i;
  });
  int count = 0;
  for (int64_t i = 0; i < n; ++i) count += seen[static_cast<size_t>(i)] != i;
  return count;
}

}  // namespace

TEST("every index is handled, once, whatever the sizes") {
  set_threads(4);
  random_cases(300, [](std::mt19937_64& random) {
    EXPECT_EQUAL(missed(draw(random, 0, 3000), draw(random, 1, 400)), 0);
  });
}

TEST("jobs of many threads at once") {
  set_threads(4);
  together(16, [](int thread) {
    for (int i = 0; i < 100; ++i) EXPECT_EQUAL(missed(200 + thread, 1 + i % 7), 0);
  });
}

TEST("more callers than there are places for jobs, with jobs inside of theirs") {
  set_threads(4);
  together(100, [](int thread) {
    std::atomic<int> wrong{0};
    for (int i = 0; i < 5; ++i) {
      parallel_for(6, 1, [&](int64_t, int64_t) {
        parallel_for(3, 1, [&](int64_t, int64_t) { wrong += missed(40 + thread, 7); });
      });
    }
    EXPECT_EQUAL(wrong.load(), 0);
  });
}

TEST("jobs are done while every worker is held up") {
  constexpr int kThreads = 4;
  set_threads(kThreads);
  std::latch held(kThreads + 1);
  std::latch release(1);
  std::jthread holder([&] {
    parallel_for(kThreads, 1, [&](int64_t, int64_t) {
      held.count_down();
      release.wait();
    });
  });
  held.arrive_and_wait();
  int wrong = 0;
  for (int i = 0; i < 200; ++i) wrong += missed(100 + i, 3);
  release.count_down();
  EXPECT_EQUAL(wrong, 0);
}

TEST("many threads on one CPU that others keep busy") {
#ifndef __linux__
  throw Skip("only Linux binds threads to a CPU");
#else
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  // Before the pool starts: threads inherit it.
  EXPECT_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
  std::atomic<bool> done{false};
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!done) {
      }
    });
  }
  set_threads(8);
  int wrong = 0;
  for (int i = 0; i < 20; ++i) wrong += missed(100 + i, 3);
  done = true;
  EXPECT_EQUAL(wrong, 0);
#endif
}

TEST("a job inside a piece of another") {
  set_threads(4);
  std::atomic<int> wrong{0};
  for (int i = 0; i < 30; ++i) {
    parallel_for(8, 1, [&](int64_t, int64_t) { wrong += missed(100, 9); });
  }
  EXPECT_EQUAL(wrong.load(), 0);
}

TEST("the first exception reaches the caller, and the pool goes on") {
  set_threads(4);
  together(8, [](int) {
    for (int i = 0; i < 50; ++i) {
      std::string reason;
      try {
        parallel_for(64, 1, [&](int64_t begin, int64_t) {
          if (begin % 5 == i % 5) throw std::runtime_error("on purpose");
        });
      } catch (const std::runtime_error& error) {
        reason = error.what();
      }
      EXPECT_EQUAL(reason, std::string("on purpose"));
      EXPECT_EQUAL(missed(64, 3), 0);
    }
  });
}

TEST("the number of threads changes while jobs run") {
  std::atomic<bool> done{false};
  std::jthread changes([&] {
    for (int i = 0; !done; ++i) {
      set_threads(1 + i % 6);
      std::this_thread::yield();
    }
  });
  int wrong = 0;
  for (int i = 0; i < 500; ++i) wrong += missed(100 + i, 3);
  done = true;
  EXPECT_EQUAL(wrong, 0);
}

TEST("fewer threads than before: the others end") {
  set_threads(8);
  for (int i = 0; i < 20; ++i) missed(1000, 1);
  const int64_t many = threads_of_process();
  set_threads(2);
  for (int i = 0; i < 2000 && threads_of_process() > many - 6; ++i) {
    missed(1000, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQUAL(threads_of_process(), many - 6);
}

TEST("a forked child has a pool of its own") {
#ifdef __SANITIZE_THREAD__
  throw Skip("ThreadSanitizer allows no threads in a forked child");
#endif
  set_threads(4);
  EXPECT_EQUAL(missed(500, 2), 0);
  const pid_t child = fork();
  if (child == 0) _exit(missed(500, 2) == 0 ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQUAL(status, 0);
}

TEST("blocks of scratch memory belong to one user at a time") {
  together(8, [](int thread) {
    for (size_t i = 0; i < 300; ++i) {
      const size_t floats = 1 + (i * 7919 + static_cast<size_t>(thread)) % 5000;
      const Scratch scratch(floats);
      const auto mark = static_cast<float>(thread);
      std::fill_n(scratch.data(), floats, mark);
      std::this_thread::yield();
      EXPECT(std::all_of(scratch.data(), scratch.data() + floats,
                         [&](float value) { return value == mark; }));
    }
  });
}
