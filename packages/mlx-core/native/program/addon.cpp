// Programs and sessions for JavaScript.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "core/environment.h"
#include "core/errors.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/handle.h"
#include "lm/kv_cache.h"
#include "program/mlxfn.h"
#include "program/program.h"
#include "program/session.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

using program::Call;
using program::Profile;
using program::Session;
using ProgramHandle = std::shared_ptr<const program::Program>;
using SessionHandle = std::shared_ptr<Session>;
using CancelHandle = std::shared_ptr<std::atomic<bool>>;

std::vector<mx::array> arrays_of(Environment& environment, const Napi::Value& ids) {
  const auto list = ids.As<Napi::Float64Array>();
  std::vector<mx::array> arrays;
  for (size_t i = 0; i < list.ElementLength(); ++i) {
    arrays.push_back(environment.arrays.at(list[i]));
  }
  return arrays;
}

// createProgram(words, values, lists, texts, constants) → program
napi_value create_program(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  const auto words = info[0].As<Napi::Float64Array>();
  auto values = info[1].As<Napi::ArrayBuffer>();
  const auto lists = info[2].As<Napi::Float64Array>();
  const auto texts = info[3].As<Napi::Array>();
  if (values.ByteLength() % sizeof(Value) != 0) {
    throw CodedError("PROGRAM", "the arguments are cut off");
  }
  program::Tables tables;
  tables.words = {words.Data(), words.ElementLength()};
  tables.values.resize(values.ByteLength() / sizeof(Value));
  if (!tables.values.empty()) {
    std::memcpy(tables.values.data(), values.Data(), values.ByteLength());
  }
  tables.lists.assign(lists.Data(), lists.Data() + lists.ElementLength());
  for (uint32_t i = 0; i < texts.Length(); ++i) tables.texts.push_back(texts.Get(i).ToString());
  tables.constants = arrays_of(environment, info[4]);
  return external(info.Env(), program::make_program(std::move(tables), environment.lane(),
                                                    environment.stream()));
}

// Another lane than the environment's, which builds arrays meanwhile.
Lane& lane_beside(Environment& environment) {
  Lane* lane = &assign_lane();
  if (lane == &environment.lane()) lane = &assign_lane();
  return *lane;
}

// createSession(program) → session, on a lane of its own: sessions run at once
napi_value create_session(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  Lane& lane = lane_beside(environment);
  const mx::Stream stream = lane.stream(environment.stream().device.type);
  return external(info.Env(),
                  std::make_shared<Session>(handle_of<ProgramHandle>(info[0]), lane, stream));
}

// disposeSession(session): a call that runs keeps it to its end
napi_value dispose_session(const Napi::CallbackInfo& info) {
  info[0].As<Napi::External<SessionHandle>>().Data()->reset();
  return nullptr;
}

napi_value dispose_program(const Napi::CallbackInfo& info) {
  info[0].As<Napi::External<ProgramHandle>>().Data()->reset();
  return nullptr;
}

// areComputed(ids)
napi_value are_computed(const Napi::CallbackInfo& info) {
  for (const mx::array& array : arrays_of(Environment::of(info.Env()), info[0])) {
    if (!array.is_available()) return Napi::Boolean::New(info.Env(), false);
  }
  return Napi::Boolean::New(info.Env(), true);
}

napi_value cancel_token(const Napi::CallbackInfo& info) {
  return external(info.Env(), std::make_shared<std::atomic<bool>>(false));
}

napi_value cancel(const Napi::CallbackInfo& info) {
  handle_of<CancelHandle>(info[0])->store(true, std::memory_order_relaxed);
  return nullptr;
}

Napi::Value profile_of(Napi::Env env, const Profile& profile) {
  auto ops = Napi::Array::New(env, profile.ops.size());
  uint32_t next = 0;
  for (const auto& [op, count, seconds, bytes] : profile.ops) {
    auto entry = Napi::Object::New(env);
    entry.Set("op", op->name);
    entry.Set("count", static_cast<double>(count));
    entry.Set("seconds", seconds);
    entry.Set("bytes", bytes);
    ops[next++] = entry;
  }
  auto result = Napi::Object::New(env);
  result.Set("ops", ops);
  result.Set("seconds", profile.seconds);
  return result;
}

// What a call needs until it is done, on whichever thread.
struct Running {
  SessionHandle session;
  Call call;
  CancelHandle cancelled;
  Profile profile;
};

Napi::Value result_of(Napi::Env env, const Running& running, Evaluation& done) {
  auto& environment = Environment::of(env);
  auto ids = Napi::Float64Array::New(env, done.arrays.size());
  size_t added = 0;
  try {
    for (; added < done.arrays.size(); ++added) {
      ids[added] = environment.add(std::move(done.arrays[added]), true);
    }
  } catch (...) {
    environment.drop(ids.Data(), added);
    throw;
  }
  auto result = Napi::Object::New(env);
  result.Set("ids", ids);
  if (running.call.profile) result.Set("profile", profile_of(env, running.profile));
  return result;
}

// runSession(session, method, ids, dimensions, cancelToken?, profile, cache?, sequences?) →
// Promise<{ ids, profile? }>
napi_value run_session(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  auto running = std::make_shared<Running>();
  running->session = handle_of<SessionHandle>(info[0]);
  Call& call = running->call;
  call.method = info[1].As<Napi::Number>().Uint32Value();
  call.inputs = arrays_of(environment, info[2]);
  for (const mx::array& input : call.inputs) {
    if (!input.is_available()) throw CodedError("PROGRAM", "inputs have to be computed");
  }
  const auto dimensions = info[3].As<Napi::Float64Array>();
  call.dimensions.assign(dimensions.Data(), dimensions.Data() + dimensions.ElementLength());
  if (!info[4].IsUndefined()) {
    running->cancelled = handle_of<CancelHandle>(info[4]);
    call.cancelled = running->cancelled.get();
  }
  if (info[5].ToBoolean()) call.profile = &running->profile;
  if (!info[6].IsUndefined()) call.cache = handle_of<std::shared_ptr<lm::KvCache>>(info[6]);
  if (!info[7].IsUndefined()) {
    const auto sequences = info[7].As<Napi::Int32Array>();
    call.sequences.assign(sequences.Data(), sequences.Data() + sequences.ElementLength());
  }

  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  Session& session = *running->session;
  environment.perform(
      session.lane(), session.stream(),
      [running] {
        auto outputs = running->session->run(running->call);
        running->call.inputs.clear();
        return outputs;
      },
      [deferred, running](Napi::Env env, Evaluation& done) {
        if (done.error_code) return reject(deferred, done.error_code, done.error_message);
        try {
          deferred.Resolve(result_of(env, *running, done));
        } catch (const std::exception& error) {
          reject(deferred, code_of(error), error.what());
        }
      });
  return deferred.Promise();
}

std::vector<uint32_t> numbers_of(const Napi::Value& value) {
  const auto list = value.As<Napi::Uint32Array>();
  return {list.Data(), list.Data() + list.ElementLength()};
}

// writeMlxfn(program, path, method, sizes, dimensions, states, nextStates, cancelToken?) → Promise:
// see MlxfnFile
napi_value write_mlxfn(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  const ProgramHandle program = handle_of<ProgramHandle>(info[0]);
  program::MlxfnFile file;
  file.path = info[1].ToString();
  file.method = info[2].As<Napi::Number>().Uint32Value();
  const auto sizes = info[3].As<Napi::Array>();
  for (uint32_t i = 0; i < sizes.Length(); ++i) {
    const auto each = sizes.Get(i).As<Napi::Float64Array>();
    file.sizes.emplace_back(each.Data(), each.Data() + each.ElementLength());
  }
  file.dimensions = numbers_of(info[4]);
  file.states = numbers_of(info[5]);
  file.next_states = numbers_of(info[6]);
  CancelHandle cancelled;
  if (!info[7].IsUndefined()) cancelled = handle_of<CancelHandle>(info[7]);
  file.cancelled = cancelled.get();

  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  Lane& lane = lane_beside(environment);
  const mx::Stream stream = lane.stream(environment.stream().device.type);
  environment.perform(
      lane, stream,
      [=, &lane, file = std::move(file)] {
        program::write_mlxfn(*program, lane, stream, file);
        return std::vector<mx::array>();
      },
      [deferred](Napi::Env env, Evaluation& done) {
        if (done.error_code) return reject(deferred, done.error_code, done.error_message);
        deferred.Resolve(env.Undefined());
      });
  return deferred.Promise();
}

}  // namespace

void export_programs(Napi::Env, Napi::Object exports) {
  export_function<create_program>(exports, "createProgram");
  export_function<dispose_program>(exports, "disposeProgram");
  export_function<create_session>(exports, "createSession");
  export_function<dispose_session>(exports, "disposeSession");
  export_function<run_session>(exports, "runSession");
  export_function<write_mlxfn>(exports, "writeMlxfn");
  export_function<are_computed>(exports, "areComputed");
  export_function<cancel_token>(exports, "cancelToken");
  export_function<cancel>(exports, "cancel");
}

}  // namespace mlx_runners
