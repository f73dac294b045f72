// The generation loop for JavaScript.
#include <algorithm>
#include <atomic>
#include <memory>

#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/handle.h"
#include "lm/generation.h"
#include "lm/sampler_handle.h"

namespace mlx_runners {
namespace {

using SessionHandle = std::shared_ptr<program::Session>;
using CancelHandle = std::shared_ptr<std::atomic<bool>>;

template <class TypedArray>
auto elements_of(const Napi::Value& value) {
  const auto list = value.As<TypedArray>();
  return std::vector(list.Data(), list.Data() + list.ElementLength());
}

lm::Burst burst_of(const Napi::Object& given) {
  const auto number = [&](const char* name) {
    return given.Get(name).As<Napi::Number>().DoubleValue();
  };
  const auto index = [&](const char* name) { return static_cast<size_t>(number(name)); };
  lm::Burst burst;
  burst.call.method = static_cast<uint32_t>(index("method"));
  burst.call.dimensions = elements_of<Napi::Float64Array>(given.Get("dimensions"));
  if (!given.Get("rowsInput").IsUndefined()) burst.rows_input = index("rowsInput");
  burst.past_dimension = index("pastDimension");
  burst.logits_output = index("logitsOutput");
  burst.ids = elements_of<Napi::Int32Array>(given.Get("ids"));
  burst.past = static_cast<int64_t>(number("past"));
  burst.stop_ids = elements_of<Napi::Int32Array>(given.Get("stopIds"));
  burst.max_tokens = static_cast<size_t>(std::min(number("maxTokens"), 0x1p53));
  burst.max_seconds = number("maxSeconds");
  return burst;
}

const char* name_of(lm::Ended ended) {
  switch (ended) {
    case lm::Ended::Limit:
      return "limit";
    case lm::Ended::Stop:
      return "stop";
    case lm::Ended::Aborted:
      return "aborted";
    case lm::Ended::Interrupted:
      return "interrupted";
  }
  return "";
}

// What a burst needs until it is done, on whichever thread.
struct Running {
  SessionHandle session;
  lm::SamplerUse sampler;
  CancelHandle cancelled;
  lm::Burst burst;
  lm::Generated generated;
};

Napi::Value result_of(Napi::Env env, const Running& running) {
  const lm::Generated& done = running.generated;
  Napi::Object result = lm::tokens_of(env, done.tokens, running.sampler->sampling());
  result.Set("ended", name_of(done.ended));
  result.Set("past", static_cast<double>(done.past));
  result.Set("firstSeconds", done.first_seconds);
  result.Set("seconds", done.seconds);
  return result;
}

// generateTokens(session, sampler, burst, cancelToken?, cache?) → Promise<{ ids, …, ended, past,
// firstSeconds, seconds }>: see Burst, Generated and tokens_of
napi_value generate_tokens(const Napi::CallbackInfo& info) {
  const SessionHandle session = handle_of<SessionHandle>(info[0]);
  auto running = std::shared_ptr<Running>(
      new Running{session, lm::SamplerUse(handle_of<lm::SamplerHandle>(info[1])), nullptr,
                  burst_of(info[2].As<Napi::Object>()), lm::Generated()});
  if (!info[3].IsUndefined()) {
    running->cancelled = handle_of<CancelHandle>(info[3]);
    running->burst.call.cancelled = running->cancelled.get();
  }
  if (!info[4].IsUndefined()) {
    running->burst.call.cache = handle_of<std::shared_ptr<lm::KvCache>>(info[4]);
  }
  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  Environment::of(info.Env())
      .perform(
          session->lane(), session->stream(),
          [running] {
            running->generated =
                lm::generate(*running->session, std::move(running->burst), *running->sampler);
            return std::vector<mlx::core::array>();
          },
          [deferred, running](Napi::Env env, Evaluation& done) {
            if (done.error_code) return reject(deferred, done.error_code, done.error_message);
            try {
              deferred.Resolve(result_of(env, *running));
            } catch (const std::exception& error) {
              reject(deferred, code_of(error), error.what());
            }
          });
  return deferred.Promise();
}

}  // namespace

void export_generation(Napi::Env, Napi::Object exports) {
  export_function<generate_tokens>(exports, "generateTokens");
}

}  // namespace mlx_runners
