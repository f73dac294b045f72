#include "core/evaluator.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "core/memory_limit.h"
#include "kernels/cpu/pool.h"
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
  static auto* evaluator = new Evaluator(std::max(2, cpu::available_cpus()));
  return *evaluator;
}

Evaluator::Evaluator(int threads) : threads_(threads) {
  for (int i = 0; i < threads; ++i) std::thread([this] { work(); }).detach();
}

Evaluator::Load Evaluator::load() {
  std::lock_guard lock(mutex_);
  return {threads_, running_.size(), queue_.size(), peak_};
}

void Evaluator::submit(std::unique_ptr<Evaluation> evaluation) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(evaluation));
  }
  wake_.notify_one();
}

void Evaluator::drain(const void* owner) {
  Queue dropped;  // destroyed after the lock is given back
  std::unique_lock lock(mutex_);
  auto mine = std::stable_partition(queue_.begin(), queue_.end(),
                                    [&](const auto& queued) { return queued->owner != owner; });
  std::move(mine, queue_.end(), std::back_inserter(dropped));
  queue_.erase(mine, queue_.end());
  idle_.wait(lock,
             [&] { return std::ranges::find(running_, owner, &Running::owner) == running_.end(); });
}

void Evaluator::run(Evaluation& evaluation) {
  LaneLock lock(*evaluation.lane, evaluation.stream);
  auto& arrays = evaluation.arrays;
  try {
    if (evaluation.work) {
      arrays = evaluation.work();
      evaluation.work = {};  // and what it captured, while the lane is held
      return;
    }
    if (evaluation.for_reading) {
      for (auto& array : arrays) array = readable(array, evaluation.stream);
    }
    require_memory_for(arrays);
    mx::eval(arrays);
  } catch (const std::exception& error) {
    evaluation.error_code = code_of(error);
    evaluation.error_message = error.what();
  }
  // The JavaScript thread destroys what is left, without the lane. After a failure that would be
  // a graph, whose nodes another evaluation may have in hands.
  if (evaluation.error_code || !evaluation.for_reading) arrays.clear();
}

Evaluator::Queue::iterator Evaluator::next() {
  return std::ranges::find_if(queue_, [&](const auto& queued) {
    return std::ranges::find(running_, queued->lane, &Running::lane) == running_.end();
  });
}

void Evaluator::work() {
  for (;;) {
    std::unique_ptr<Evaluation> evaluation;
    {
      std::unique_lock lock(mutex_);
      auto chosen = queue_.end();
      wake_.wait(lock, [&] { return (chosen = next()) != queue_.end(); });
      evaluation = std::move(*chosen);
      queue_.erase(chosen);
      running_.push_back({evaluation->owner, evaluation->lane});
      peak_ = std::max(peak_, running_.size());
    }
    const Lane* lane = evaluation->lane;
    run(*evaluation);
    auto done = std::move(evaluation->done);
    done(std::move(evaluation));
    {
      std::lock_guard lock(mutex_);
      running_.erase(std::ranges::find(running_, lane, &Running::lane));
    }
    idle_.notify_all();
  }
}

}  // namespace mlx_runners
