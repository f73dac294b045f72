// No C++ exception may cross into JavaScript's engine: each becomes an Error with a `code`.
#pragma once

#include <napi.h>

#include "core/errors.h"

namespace mlx_runners {

template <class F>
napi_value guarded(napi_env env, F&& body) {
  try {
    return body();
  } catch (const Napi::Error& error) {
    error.ThrowAsJavaScriptException();
  } catch (const std::exception& error) {
    napi_throw_error(env, code_of(error), error.what());
  } catch (...) {
    napi_throw_error(env, "NATIVE", "an exception of unknown type");
  }
  return nullptr;
}

// Exports a C++ function under a name; what it throws reaches JavaScript as an Error.
template <napi_value (*function)(const Napi::CallbackInfo&)>
void export_function(Napi::Object exports, const char* name) {
  exports.Set(name, Napi::Function::New(
                        exports.Env(),
                        [](const Napi::CallbackInfo& info) -> Napi::Value {
                          napi_value result = guarded(info.Env(), [&] { return function(info); });
                          return result ? Napi::Value(info.Env(), result) : info.Env().Undefined();
                        },
                        name));
}

}  // namespace mlx_runners
