// Data into and out of arrays.
#include <cstring>

#include "core/dtypes.h"
#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/memory_limit.h"
#include "core/shape_argument.h"
#include "mlx/allocator.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

mx::array array_of(Environment& environment, const Napi::Value& id) {
  return environment.arrays.at(id.As<Napi::Number>().DoubleValue());
}

std::vector<mx::array> arrays_of(Environment& environment, const Napi::Value& value) {
  const auto ids = value.As<Napi::Float64Array>();
  std::vector<mx::array> arrays;
  arrays.reserve(ids.ElementLength());
  for (size_t i = 0; i < ids.ElementLength(); ++i) arrays.push_back(environment.arrays.at(ids[i]));
  return arrays;
}

// A copy of an evaluated, row-contiguous array's bytes.
Napi::ArrayBuffer copy_out(Napi::Env env, const mx::array& array) {
  auto buffer = Napi::ArrayBuffer::New(env, array.nbytes());
  if (array.nbytes()) std::memcpy(buffer.Data(), array.data<char>(), array.nbytes());
  return buffer;
}

// fromBytes(bytes, dtype, shape, tracked) → id
napi_value from_bytes(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  const auto bytes = info[0].As<Napi::Uint8Array>();
  const mx::Dtype dtype = dtype_argument(info[1]);
  const mx::Shape shape = shape_argument(info[2], dtype, bytes.ByteLength(), true);
  require_memory(static_cast<double>(bytes.ByteLength()));
  auto data = mx::allocator::malloc(std::max<size_t>(bytes.ByteLength(), 1));
  mx::array array(std::move(data), shape, dtype);
  if (bytes.ByteLength()) std::memcpy(array.data<char>(), bytes.Data(), bytes.ByteLength());
  return Napi::Number::New(info.Env(), environment.add(std::move(array), info[3].ToBoolean()));
}

Napi::Error error_of(Napi::Env env, const Evaluation& evaluation) {
  auto error = Napi::Error::New(env, evaluation.error_message);
  error.Set("code", Napi::String::New(env, evaluation.error_code));
  return error;
}

// A promise for an evaluation; `result` turns the evaluated arrays into what it resolves with.
template <class F>
napi_value promised(const Napi::CallbackInfo& info, std::vector<mx::array> arrays, bool for_reading,
                    F result) {
  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  Environment::of(info.Env())
      .evaluate(std::move(arrays), for_reading,
                [deferred, result](Napi::Env env, Evaluation& done) {
                  if (done.error_code) {
                    deferred.Reject(error_of(env, done).Value());
                    return;
                  }
                  try {
                    deferred.Resolve(result(env, done));
                  } catch (const Napi::Error& error) {  // no memory for the copy
                    deferred.Reject(error.Value());
                  }
                });
  return deferred.Promise();
}

napi_value evaluate(const Napi::CallbackInfo& info) {
  auto arrays = arrays_of(Environment::of(info.Env()), info[0]);
  return promised(info, std::move(arrays), false,
                  [](Napi::Env env, Evaluation&) { return env.Undefined(); });
}

napi_value evaluate_sync(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  environment.evaluate_now(arrays_of(environment, info[0]));
  return nullptr;
}

// read(id) → Promise<ArrayBuffer>, halves as float32
napi_value read(const Napi::CallbackInfo& info) {
  return promised(info, {array_of(Environment::of(info.Env()), info[0])}, true,
                  [](Napi::Env env, Evaluation& done) -> Napi::Value {
                    return copy_out(env, done.arrays.front());
                  });
}

napi_value read_sync(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  mx::array array = array_of(environment, info[0]);
  {
    auto held = environment.lock();
    array = readable(array, environment.stream());
    require_memory_for({array});
    mx::eval({array});
  }
  return copy_out(info.Env(), array);
}

// bytes(id) → ArrayBuffer: the elements as they are, for files
napi_value bytes(const Napi::CallbackInfo& info) {
  auto& environment = Environment::of(info.Env());
  mx::array array = array_of(environment, info[0]);
  {
    auto held = environment.lock();
    array = mx::contiguous(array, false, environment.stream());
    require_memory_for({array});
    mx::eval({array});
  }
  return copy_out(info.Env(), array);
}

}  // namespace

void export_transfers(Napi::Env, Napi::Object exports) {
  export_function<from_bytes>(exports, "fromBytes");
  export_function<evaluate>(exports, "evaluate");
  export_function<evaluate_sync>(exports, "evaluateSync");
  export_function<read>(exports, "read");
  export_function<read_sync>(exports, "readSync");
  export_function<bytes>(exports, "bytes");
}

}  // namespace mlx_runners
