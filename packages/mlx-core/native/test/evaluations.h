// Evaluations as an environment makes them: arrays built under a lane's lock, evaluated by the
// evaluator's threads.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/evaluator.h"
#include "core/lanes.h"
#include "mlx/array.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"

namespace mlx_runners::testing {

namespace mx = mlx::core;

struct Builder {
  Lane& lane = assign_lane();
  mx::Stream stream = lane.cpu;

  template <class Build>
  mx::array build(Build&& body) {
    LaneLock lock(lane, stream);
    return body();
  }

  /// Drops a graph, which takes the lane as building does.
  void drop(mx::array&& array) {
    LaneLock lock(lane, stream);
    const mx::array dropped = std::move(array);
  }

  /// Asks for an evaluation; the future gives the values, or throws std::runtime_error.
  std::future<mx::array> submit(mx::array array) {
    auto promise = std::make_shared<std::promise<mx::array>>();
    auto result = promise->get_future();
    auto evaluation = std::make_unique<Evaluation>(
        Evaluation{this, &lane, stream, {std::move(array)}, true, nullptr, {}, {}});
    evaluation->done = [promise](std::unique_ptr<Evaluation> done) {
      if (done->error_code) {
        promise->set_exception(std::make_exception_ptr(std::runtime_error(done->error_message)));
      } else {
        promise->set_value(std::move(done->arrays.front()));
      }
    };
    Evaluator::instance().submit(std::move(evaluation));
    return result;
  }
};

/// A primitive that does what the test says, once on the thread that evaluates and once on the
/// stream's thread.
class Act : public mx::UnaryPrimitive {
 public:
  using Action = std::function<void()>;
  Act(mx::Stream stream, Action on_evaluator, Action on_stream);
  void eval_cpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  void eval_gpu(const std::vector<mx::array>& inputs, mx::array& out) override;
  const char* name() const override { return "Act"; }

 private:
  Action on_evaluator_;
  Action on_stream_;
};

/// A copy of x, a float32 array, by an Act.
mx::array acting(
    const mx::array& x, mx::Stream stream, Act::Action on_evaluator, Act::Action on_stream = [] {});

}  // namespace mlx_runners::testing
