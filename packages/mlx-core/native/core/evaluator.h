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

// One request to evaluate, or to do other work that needs a lane. `done` is called on an evaluator
// thread, success or not.
struct Evaluation {
  const void* owner;  // the environment that asked
  Lane* lane;
  mlx::core::Stream stream;
  std::vector<mlx::core::array> arrays;
  bool for_reading;  // leave `arrays` row-contiguous, halves widened to float32; else leave none
  const char* error_code = nullptr;
  std::string error_message;
  std::function<void(std::unique_ptr<Evaluation>)> done;
  // When given, this is done with the lane held, and its result becomes `arrays`.
  std::function<std::vector<mlx::core::array>()> work = {};
};

// Row-contiguous, with float16 and bfloat16 as float32: what a typed array can show.
mlx::core::array readable(const mlx::core::array& array, mlx::core::Stream stream);

class Evaluator {
 public:
  struct Load {
    int limit;       // evaluations at once at most: its threads
    size_t running;  // each on a thread and a lane of its own
    size_t waiting;
    size_t peak;  // the largest `running` so far
  };

  // One for the process, never destroyed: its threads sleep in it until the process ends.
  static Evaluator& instance();

  Load load();

  // Evaluations of one lane are run one after another, in the order in which they came.
  void submit(std::unique_ptr<Evaluation> evaluation);

  // Drops what `owner` has queued and waits for what runs on its behalf.
  void drain(const void* owner);

 private:
  explicit Evaluator(int threads);
  void work();
  static void run(Evaluation& evaluation);

  using Queue = std::deque<std::unique_ptr<Evaluation>>;
  struct Running {
    const void* owner;
    const Lane* lane;
  };
  // The first that has not to wait for a running one of its lane.
  Queue::iterator next();

  const int threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  Queue queue_;
  std::vector<Running> running_;
  size_t peak_ = 0;
};

}  // namespace mlx_runners
