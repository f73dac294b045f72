// Native threads that evaluate arrays, so that JavaScript's event loop never waits for a graph.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/lanes.h"
#include "mlx/array.h"

namespace mlx_runners {

// One request to evaluate. `done` is called on an evaluator thread, success or not.
struct Evaluation {
  const void* owner;  // the environment that asked
  Lane* lane;
  mlx::core::Stream stream;
  std::vector<mlx::core::array> arrays;
  bool for_reading;  // leave `arrays` row-contiguous, halves widened to float32; else leave none
  const char* error_code = nullptr;
  std::string error_message;
  std::function<void(std::unique_ptr<Evaluation>)> done;
};

// Row-contiguous, with float16 and bfloat16 as float32: what a typed array can show.
mlx::core::array readable(const mlx::core::array& array, mlx::core::Stream stream);

class Evaluator {
 public:
  // One for the process, never destroyed: its threads sleep in it until the process ends.
  static Evaluator& instance();

  void submit(std::unique_ptr<Evaluation> evaluation);

  // Drops what `owner` has queued and waits for what runs on its behalf.
  void drain(const void* owner);

 private:
  explicit Evaluator(int threads);
  void work();
  static void run(Evaluation& evaluation);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::unique_ptr<Evaluation>> queue_;
  std::vector<const void*> running_;
};

}  // namespace mlx_runners
