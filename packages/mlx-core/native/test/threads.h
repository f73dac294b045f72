// Threads that start together, and what Linux says about those of this process.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "harness.h"

namespace mlx_runners::testing {

/// Runs body(0) to body(count - 1) on a thread each, let go at once; rethrows the first exception.
template <class Body>
void together(int count, Body&& body) {
  std::latch start(count);
  std::mutex mutex;
  std::exception_ptr error;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          body(i);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!error) error = std::current_exception();
        }
      });
    }
  }
  if (error) std::rethrow_exception(error);
}

inline int64_t threads_of_process() {
#ifndef __linux__
  throw Skip("only Linux lists a process's threads in files");
#endif
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

}  // namespace mlx_runners::testing
