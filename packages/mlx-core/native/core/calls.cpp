// Calling ops, and the life of the arrays they make.
#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "ops/op.h"

namespace mlx_runners {
namespace {

// invoke(op, argumentCount, tracked): arguments are in the exchange buffer; the results' ids are
// written there and their number returned. The one call on every op's path, so plain Node-API.
napi_value invoke(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    size_t argc = 3;
    napi_value argv[3];
    void* data;
    napi_get_cb_info(env, info, &argc, argv, nullptr, &data);
    auto& environment = *static_cast<Environment*>(data);
    uint32_t number = 0, count = 0;
    bool tracked = false;
    napi_get_value_uint32(env, argv[0], &number);
    napi_get_value_uint32(env, argv[1], &count);
    napi_get_value_bool(env, argv[2], &tracked);
    const auto& table = op_table();
    if (number >= table.size()) throw CodedError("NATIVE", "no op has this number");

    std::vector<mx::array> results;
    {
      auto held = environment.lock();
      table[number].call(environment.values(count), environment.arrays, environment.stream(),
                         results);
    }
    if (results.size() > ExchangeLayout::results) {
      throw CodedError("NATIVE", "more results than the exchange buffer holds");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      environment.results()[i] = environment.add(std::move(results[i]), tracked);
    }
    napi_value returned;
    napi_create_uint32(env, static_cast<uint32_t>(results.size()), &returned);
    return returned;
  });
}

// describe(id): writes dtype, itemsize and the shape to the results; returns the number of axes.
napi_value describe(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    size_t argc = 1;
    napi_value argument;
    void* data;
    napi_get_cb_info(env, info, &argc, &argument, nullptr, &data);
    auto& environment = *static_cast<Environment*>(data);
    double id = -1;
    napi_get_value_double(env, argument, &id);
    const mx::array& array = environment.arrays.at(id);
    if (array.ndim() + 2 > ExchangeLayout::results) throw CodedError("SHAPE", "too many axes");
    double* out = environment.results();
    *out++ = static_cast<double>(static_cast<int>(array.dtype().val()));
    *out++ = static_cast<double>(array.itemsize());
    for (auto size : array.shape()) *out++ = size;
    napi_value returned;
    napi_create_uint32(env, static_cast<uint32_t>(array.ndim()), &returned);
    return returned;
  });
}

Napi::Value fallback_of(Napi::Env env, const Param& param) {
  if (param.fallback_text) return Napi::String::New(env, param.fallback_text);
  switch (param.fallback.tag) {
    case Tag::Int:
    case Tag::Float:
    case Tag::Dtype:
      return Napi::Number::New(env, param.fallback.number);
    case Tag::Bool:
      return Napi::Boolean::New(env, param.fallback.number != 0);
    default:
      return env.Null();
  }
}

// The op table for JavaScript: what it needs to write arguments, and what declarations say.
napi_value ops(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto list = Napi::Array::New(env, op_table().size());
  uint32_t row = 0;
  for (const Op& op : op_table()) {
    auto params = Napi::Array::New(env, op.params.size());
    uint32_t position = 0;
    for (const Param& param : op.params) {
      auto entry = Napi::Object::New(env);
      entry.Set("name", param.name);
      entry.Set("kind", static_cast<int>(param.kind));
      entry.Set("operand", param.operand);
      entry.Set("optional", param.optional || param.nullable);
      entry.Set("fallback", fallback_of(env, param));
      auto choices = Napi::Array::New(env, param.choices.size());
      for (uint32_t i = 0; i < param.choices.size(); ++i) choices[i] = param.choices[i];
      entry.Set("choices", choices);
      params[position++] = entry;
    }
    auto entry = Napi::Object::New(env);
    entry.Set("name", op.name);
    entry.Set("doc", op.doc);
    entry.Set("many", op.many);
    entry.Set("params", params);
    list[row++] = entry;
  }
  return list;
}

napi_value intern_text(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), intern(info[0].As<Napi::String>().Utf8Value()));
}

napi_value drop(const Napi::CallbackInfo& info) {
  const auto ids = info[0].As<Napi::Float64Array>();
  Environment::of(info.Env()).drop(ids.Data(), ids.ElementLength());
  return nullptr;
}

napi_value track(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).track(info[0].As<Napi::Number>().DoubleValue());
  return nullptr;
}

void export_raw(Napi::Env env, Napi::Object exports, const char* name, napi_callback callback) {
  napi_value function;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, &Environment::of(env), &function);
  exports.Set(name, function);
}

napi_value attach(const Napi::CallbackInfo& info) {
  return Environment::of(info.Env()).attach_exchange(info[0].As<Napi::ArrayBuffer>());
}

}  // namespace

void export_calls(Napi::Env env, Napi::Object exports) {
  auto layout = Napi::Object::New(env);
  layout.Set("values", ExchangeLayout::values);
  layout.Set("listsAt", ExchangeLayout::lists_at);
  layout.Set("lists", ExchangeLayout::lists);
  layout.Set("resultsAt", ExchangeLayout::results_at);
  layout.Set("total", ExchangeLayout::total);
  exports.Set("layout", layout);
  export_raw(env, exports, "invoke", invoke);
  export_raw(env, exports, "describe", describe);
  export_function<attach>(exports, "attach");
  export_function<ops>(exports, "ops");
  export_function<intern_text>(exports, "intern");
  export_function<drop>(exports, "drop");
  export_function<track>(exports, "track");
}

}  // namespace mlx_runners
