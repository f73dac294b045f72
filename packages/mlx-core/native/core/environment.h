// What one JavaScript environment (the main thread or a worker) owns in the addon.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <vector>

#include "core/array_table.h"
#include "core/evaluator.h"
#include "core/lanes.h"
#include "core/value.h"

namespace mlx_runners {

class Environment {
 public:
  explicit Environment(Napi::Env env);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  ArrayTable arrays;

  Lane& lane() { return lane_; }
  const mlx::core::Stream& stream() const { return stream_; }
  void use_device(mlx::core::Device::DeviceType type) { stream_ = lane_.stream(type); }

  // Takes the lane, first dropping what could not be dropped while another thread had it.
  LaneLock lock();

  // Drops arrays now, or with the next lock() when the lane is evaluating.
  void drop(const double* ids, size_t count);

  // Adds a result to the table. Tracked arrays are reported to the garbage collector.
  double add(mlx::core::array array, bool tracked);
  void track(double id);

  // Has V8 look for unreachable arrays now; they are dropped when the event loop next turns.
  void collect_garbage();

  // Evaluates on a native thread, then calls `finish` on the JavaScript thread.
  using Finish = std::function<void(Napi::Env, Evaluation&)>;
  void evaluate(std::vector<mlx::core::array> arrays, bool for_reading, Finish finish);
  void evaluate_now(std::vector<mlx::core::array> arrays);

  // The same for work on any lane, which gives computed arrays.
  using Work = std::function<std::vector<mlx::core::array>()>;
  void perform(Lane& lane, mlx::core::Stream stream, Work work, Finish finish);

  // Before the end of the process: forgets queued evaluations, waits for running ones and refuses
  // new ones. Node runs no cleanup hook in process.exit(), only the C++ destructors of statics,
  // among them those of libmlx.
  void finish();

  // The memory that JavaScript writes arguments to and reads results from; see src/call.ts. The
  // first buffer stays, so that two copies of the package in one program can share it.
  Napi::Value attach_exchange(Napi::ArrayBuffer buffer);
  ValueList values(uint32_t count) const;
  // Room for ExchangeLayout::results numbers.
  double* results() const { return exchange_ + ExchangeLayout::results_at; }

 private:
  struct Completion;
  static void complete(Napi::Env env, Napi::Function, void*, Completion* arrived);
  using Completions = Napi::TypedThreadSafeFunction<void, Completion, &Environment::complete>;
  static void on_cleanup(void* environment);
  void submit(std::unique_ptr<Evaluation> evaluation, Finish finish);
  void report_charge(int64_t bytes);
  void flush_dropped();
  void erase(const double* ids, size_t count);

  Napi::Env env_;
  Lane& lane_;
  mlx::core::Stream stream_;
  std::vector<double> dropped_;
  int64_t unreported_charge_ = 0;
  Completions completions_;
  size_t pending_ = 0;
  bool finished_ = false;
  Napi::Reference<Napi::ArrayBuffer> exchange_owner_;
  double* exchange_ = nullptr;
};

}  // namespace mlx_runners
