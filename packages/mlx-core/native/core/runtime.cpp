// Devices, memory and what this build is made of.
#include "blas/probe.h"
#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "core/memory_limit.h"
#include "io/mapping.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"
#include "mlx/memory.h"
#include "mlx/version.h"

namespace mlx_runners {
namespace mx = mlx::core;
namespace {

napi_value memory(const Napi::CallbackInfo& info) {
  auto usage = Napi::Object::New(info.Env());
  usage.Set("active", static_cast<double>(mx::get_active_memory()));
  usage.Set("peak", static_cast<double>(mx::get_peak_memory()));
  usage.Set("cache", static_cast<double>(mx::get_cache_memory()));
  usage.Set("limit", static_cast<double>(memory_limit()));
  usage.Set("mapped", static_cast<double>(Mapping::total_bytes()));
  usage.Set("arrays", static_cast<double>(Environment::of(info.Env()).arrays.live()));
  return usage;
}

napi_value reset_peak_memory(const Napi::CallbackInfo&) {
  mx::reset_peak_memory();
  return nullptr;
}

napi_value limit_memory(const Napi::CallbackInfo& info) {
  set_memory_limit(static_cast<size_t>(info[0].As<Napi::Number>().Int64Value()));
  return nullptr;
}

napi_value collect_garbage(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).collect_garbage();
  return nullptr;
}

napi_value clear_cache(const Napi::CallbackInfo&) {
  mx::clear_cache();
  return nullptr;
}

napi_value use_gpu(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).use_device(info[0].ToBoolean() ? mx::Device::gpu : mx::Device::cpu);
  return nullptr;
}

napi_value on_gpu(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(),
                            Environment::of(info.Env()).stream().device == mx::Device::gpu);
}

napi_value use_threads(const Napi::CallbackInfo& info) {
  const int count = info[0].As<Napi::Number>().Int32Value();
  cpu::set_threads(count);
  set_blas_threads(count);
  return nullptr;
}

napi_value finish(const Napi::CallbackInfo& info) {
  Environment::of(info.Env()).finish();
  return nullptr;
}

napi_value evaluations(const Napi::CallbackInfo& info) {
  const auto load = Evaluator::instance().load();
  auto counts = Napi::Object::New(info.Env());
  counts.Set("running", load.running);
  counts.Set("waiting", load.waiting);
  counts.Set("peak", load.peak);
  counts.Set("limit", load.limit);
  return counts;
}

napi_value build_info(const Napi::CallbackInfo& info) {
  auto about = Napi::Object::New(info.Env());
  about.Set("mlx", mx::version());
  about.Set("gpu", mx::is_available(mx::Device::gpu));
  about.Set("blas", blas_in_use());
  about.Set("simd", cpu::simd_level());
  about.Set("threads", cpu::threads());
  about.Set("lanes", lane_count());
  return about;
}

}  // namespace

void export_runtime(Napi::Env, Napi::Object exports) {
  export_function<memory>(exports, "memory");
  export_function<reset_peak_memory>(exports, "resetPeakMemory");
  export_function<limit_memory>(exports, "setMemoryLimit");
  export_function<collect_garbage>(exports, "collectGarbage");
  export_function<clear_cache>(exports, "clearCache");
  export_function<use_gpu>(exports, "useGpu");
  export_function<on_gpu>(exports, "onGpu");
  export_function<use_threads>(exports, "useThreads");
  export_function<evaluations>(exports, "evaluations");
  export_function<build_info>(exports, "buildInfo");
  export_function<finish>(exports, "finish");
}

}  // namespace mlx_runners
