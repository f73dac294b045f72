// Native objects that JavaScript holds, and how promises of native work fail.
#pragma once

#include <napi.h>

#include <string>
#include <utility>

#include "core/errors.h"

namespace mlx_runners {

// A shared pointer as a JavaScript value; disposing resets it.
template <class Handle>
Napi::Value external(Napi::Env env, Handle handle) {
  return Napi::External<Handle>::New(env, new Handle(std::move(handle)),
                                     [](Napi::Env, Handle* old) { delete old; });
}

template <class Handle>
Handle& handle_of(const Napi::Value& value) {
  Handle& handle = *value.As<Napi::External<Handle>>().Data();
  if (!handle) throw CodedError("DISPOSED", "it was disposed");
  return handle;
}

inline void reject(const Napi::Promise::Deferred& deferred, const char* code,
                   const std::string& message) {
  auto error = Napi::Error::New(deferred.Env(), message);
  error.Set("code", Napi::String::New(deferred.Env(), code));
  deferred.Reject(error.Value());
}

}  // namespace mlx_runners
