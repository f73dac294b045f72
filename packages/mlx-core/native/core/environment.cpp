#include "core/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>

#include "core/errors.h"
#include "mlx/transforms.h"
#include "mlx/utils.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

// Below this, telling V8 costs more than it brings.
constexpr int64_t charge_step = 1 << 20;
// What V8 is told for a small array: its node, slot and JavaScript objects, and a share of the
// backend's limit on the number of live buffers.
constexpr int64_t smallest_charge = 2048;

mx::Device::DeviceType first_device() {
  return mx::is_available(mx::Device::gpu) ? mx::Device::gpu : mx::Device::cpu;
}

double machine_memory() {
  static const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return bytes;
}

// MLX's CPU allocator doesn't look whether it got memory, and writes to address 0 when it didn't.
void check_fits(const mx::array& array) {
  double bytes = array.itemsize();  // array.nbytes() may overflow
  for (auto size : array.shape()) bytes *= size;
  if (!(bytes > machine_memory())) return;
  std::ostringstream message;
  message << "the result of shape " << array.shape() << " would take " << bytes / 1e9
          << " GB, more than this machine's " << machine_memory() / 1e9;
  throw CodedError("NATIVE", message.str());
}

}  // namespace

struct Environment::Completion {
  std::unique_ptr<Evaluation> evaluation;
  Finish finish;
};

Environment::Environment(Napi::Env env)
    : env_(env), lane_(assign_lane()), stream_(lane_.stream(first_device())) {
  completions_ =
      Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}),
                                    "mlx-core evaluations", 0, 1);
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
  if (stream_.device == mx::Device::cpu) check_fits(array);
  const double id = arrays.insert(std::move(array));
  if (tracked) track(id);
  return id;
}

void Environment::track(double id) {
  const auto bytes = std::max<int64_t>(smallest_charge, arrays.at(id).nbytes());
  arrays.charge(id, bytes);
  report_charge(bytes);
}

void Environment::report_charge(int64_t bytes) {
  unreported_charge_ += bytes;
  if (std::abs(unreported_charge_) < charge_step) return;
  Napi::MemoryManagement::AdjustExternalMemory(env_, std::exchange(unreported_charge_, 0));
}

void Environment::evaluate(std::vector<mx::array> to_evaluate, bool for_reading, Finish finish) {
  if (finished_) throw CodedError("NATIVE", "the process is ending and evaluates nothing any more");
  auto evaluation = std::make_unique<Evaluation>(
      Evaluation{this, &lane_, stream_, std::move(to_evaluate), for_reading, nullptr, {}, {}});
  // Captured by value: when the process shuts down this environment may be gone.
  evaluation->done = [completions = completions_,
                      finish = std::move(finish)](std::unique_ptr<Evaluation> done) mutable {
    auto completion = std::make_unique<Completion>(Completion{std::move(done), std::move(finish)});
    const auto status = completions.BlockingCall(
        completion.get(), [](Napi::Env env, Napi::Function, Completion* arrived) {
          std::unique_ptr<Completion> owned(arrived);
          if (static_cast<napi_env>(env) == nullptr) return;
          auto& self = Environment::of(env);
          if (--self.pending_ == 0) self.completions_.Unref(env);
          owned->finish(env, *owned->evaluation);
        });
    if (status == napi_ok) completion.release();
  };
  if (pending_++ == 0) completions_.Ref(env_);
  Evaluator::instance().submit(std::move(evaluation));
}

void Environment::finish() {
  finished_ = true;
  // After this no evaluator thread knows this environment.
  Evaluator::instance().drain(this);
}

void Environment::evaluate_now(std::vector<mx::array> to_evaluate) {
  auto held = lock();
  mx::eval(std::move(to_evaluate));
}

}  // namespace mlx_runners
