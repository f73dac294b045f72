#include "core/environment.h"

#include <cstdlib>
#include <utility>

#include "core/errors.h"
#include "core/memory_limit.h"
#include "mlx/transforms.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

// Below this, telling V8 costs more than it brings.
constexpr int64_t charge_step = 1 << 20;

mx::Device::DeviceType first_device() {
  return mx::is_available(mx::Device::gpu) ? mx::Device::gpu : mx::Device::cpu;
}

}  // namespace

struct Environment::Completion {
  std::unique_ptr<Evaluation> evaluation;
  Finish finish;
};

Environment::Environment(Napi::Env env)
    : env_(env), lane_(assign_lane()), stream_(lane_.stream(first_device())) {
  completions_ = Completions::New(env, "mlx-core evaluations", 0, 1);
  // An idle addon must not keep the process alive.
  completions_.Unref(env);
  napi_add_env_cleanup_hook(env, &Environment::on_cleanup, this);
}

Environment::~Environment() {
  LaneLock lock(lane_, stream_);
  arrays.clear();
}

void Environment::on_cleanup(void* data) {
  auto* self = static_cast<Environment*>(data);
  self->finish();
  self->completions_.Abort();
}

Napi::Value Environment::attach_exchange(Napi::ArrayBuffer buffer) {
  if (exchange_) return exchange_owner_.Value();
  if (buffer.ByteLength() != ExchangeLayout::total * sizeof(double)) {
    throw CodedError("NATIVE", "the exchange buffer has another size than this addon expects");
  }
  exchange_owner_ = Napi::Persistent(buffer);
  exchange_ = static_cast<double*>(buffer.Data());
  return buffer;
}

ValueList Environment::values(uint32_t count) const {
  if (!exchange_ || count > ExchangeLayout::values) {
    throw CodedError("NATIVE", "more arguments than the exchange buffer holds");
  }
  return {reinterpret_cast<const Value*>(exchange_), count, exchange_ + ExchangeLayout::lists_at,
          ExchangeLayout::lists};
}

LaneLock Environment::lock() {
  LaneLock lock(lane_, stream_);
  flush_dropped();
  return lock;
}

void Environment::flush_dropped() {
  if (dropped_.empty()) return;
  const auto ids = std::exchange(dropped_, {});
  erase(ids.data(), ids.size());
}

void Environment::erase(const double* ids, size_t count) {
  int64_t charged = 0;
  for (size_t i = 0; i < count; ++i) charged += arrays.erase(ids[i]);
  report_charge(-charged);
}

void Environment::drop(const double* ids, size_t count) {
  if (lane_.mutex.try_lock()) {
    std::lock_guard lock(lane_.mutex, std::adopt_lock);
    flush_dropped();
    erase(ids, count);
  } else {
    dropped_.insert(dropped_.end(), ids, ids + count);
  }
}

double Environment::add(mx::array array, bool tracked) {
  require_possible(array);
  const double id = arrays.insert(std::move(array));
  if (tracked) track(id);
  return id;
}

void Environment::track(double id) {
  const auto bytes = std::max<int64_t>(array_overhead, arrays.at(id).nbytes());
  arrays.charge(id, bytes);
  report_charge(bytes);
}

void Environment::collect_garbage() {
  // Told of more external memory than its hard limit, V8 collects everything at once.
  constexpr int64_t pressure = int64_t{1} << 40;
  Napi::MemoryManagement::AdjustExternalMemory(env_, pressure);
  Napi::MemoryManagement::AdjustExternalMemory(env_, -pressure);
}

void Environment::report_charge(int64_t bytes) {
  unreported_charge_ += bytes;
  if (std::abs(unreported_charge_) < charge_step) return;
  Napi::MemoryManagement::AdjustExternalMemory(env_, std::exchange(unreported_charge_, 0));
}

void Environment::evaluate(std::vector<mx::array> to_evaluate, bool for_reading, Finish finish) {
  submit(std::make_unique<Evaluation>(Evaluation{
             this, &lane_, stream_, std::move(to_evaluate), for_reading, nullptr, {}, {}}),
         std::move(finish));
}

void Environment::perform(Lane& lane, mx::Stream stream, Work work, Finish finish) {
  submit(std::make_unique<Evaluation>(
             Evaluation{this, &lane, stream, {}, true, nullptr, {}, {}, std::move(work)}),
         std::move(finish));
}

void Environment::submit(std::unique_ptr<Evaluation> evaluation, Finish finish) {
  if (finished_) throw CodedError("NATIVE", "the process is ending and evaluates nothing any more");
  // Captured by value: when the process shuts down this environment may be gone.
  evaluation->done = [completions = completions_,
                      finish = std::move(finish)](std::unique_ptr<Evaluation> done) mutable {
    auto completion = std::make_unique<Completion>(Completion{std::move(done), std::move(finish)});
    const auto status = completions.BlockingCall(completion.get());
    if (status == napi_ok) completion.release();
  };
  if (pending_++ == 0) completions_.Ref(env_);
  Evaluator::instance().submit(std::move(evaluation));
}

// Called without an environment for what was still on its way when that was torn down.
void Environment::complete(Napi::Env env, Napi::Function, void*, Completion* arrived) {
  const std::unique_ptr<Completion> owned(arrived);
  if (static_cast<napi_env>(env) == nullptr) return;
  auto& self = Environment::of(env);
  if (--self.pending_ == 0) self.completions_.Unref(env);
  owned->finish(env, *owned->evaluation);
}

void Environment::finish() {
  finished_ = true;
  // After this no evaluator thread knows this environment.
  Evaluator::instance().drain(this);
}

void Environment::evaluate_now(std::vector<mx::array> to_evaluate) {
  auto held = lock();
  require_memory_for(to_evaluate);
  mx::eval(std::move(to_evaluate));
}

}  // namespace mlx_runners
