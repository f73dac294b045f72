#include "core/evaluator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"

namespace mlx_runners {
namespace mx = mlx::core;

mx::array readable(const mx::array& array, mx::Stream stream) {
  const bool half = array.dtype() == mx::float16 || array.dtype() == mx::bfloat16;
  return mx::contiguous(half ? mx::astype(array, mx::float32, stream) : array, false, stream);
}

Evaluator& Evaluator::instance() {
  // Two evaluations a core only take each other's caches, but one alone leaves cores idle in its
  // serial parts.
  static auto* evaluator =
      new Evaluator(std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  return *evaluator;
}

Evaluator::Evaluator(int threads) {
  for (int i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
}

void Evaluator::submit(std::unique_ptr<Evaluation> evaluation) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(evaluation));
  }
  wake_.notify_one();
}

void Evaluator::drain(const void* owner) {
  std::deque<std::unique_ptr<Evaluation>> dropped;  // destroyed after the lock is given back
  std::unique_lock lock(mutex_);
  auto mine = std::stable_partition(queue_.begin(), queue_.end(),
                                    [&](const auto& queued) { return queued->owner != owner; });
  std::move(mine, queue_.end(), std::back_inserter(dropped));
  queue_.erase(mine, queue_.end());
  idle_.wait(lock,
             [&] { return std::find(running_.begin(), running_.end(), owner) == running_.end(); });
}

void Evaluator::run(Evaluation& evaluation) {
  LaneLock lock(*evaluation.lane, evaluation.stream);
  auto& arrays = evaluation.arrays;
  try {
    if (evaluation.for_reading) {
      for (auto& array : arrays) array = readable(array, evaluation.stream);
    }
    mx::eval(arrays);
  } catch (const std::exception& error) {
    evaluation.error_code = code_of(error);
    evaluation.error_message = error.what();
  }
  // The JavaScript thread destroys what is left, without the lane. After a failure that would be
  // a graph, whose nodes another evaluation may have in hands.
  if (evaluation.error_code || !evaluation.for_reading) arrays.clear();
}

void Evaluator::work() {
  for (;;) {
    std::unique_ptr<Evaluation> evaluation;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !queue_.empty(); });
      evaluation = std::move(queue_.front());
      queue_.pop_front();
      running_.push_back(evaluation->owner);
    }
    const void* owner = evaluation->owner;
    run(*evaluation);
    auto done = std::move(evaluation->done);
    done(std::move(evaluation));
    {
      std::lock_guard lock(mutex_);
      running_.erase(std::find(running_.begin(), running_.end(), owner));
    }
    idle_.notify_all();
  }
}

}  // namespace mlx_runners
