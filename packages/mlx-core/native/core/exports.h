// What the addon exports, by file.
#pragma once

#include <napi.h>

namespace mlx_runners {

void export_calls(Napi::Env env, Napi::Object exports);       // core/calls.cpp
void export_transfers(Napi::Env env, Napi::Object exports);   // core/transfers.cpp
void export_runtime(Napi::Env env, Napi::Object exports);     // core/runtime.cpp
void export_files(Napi::Env env, Napi::Object exports);       // io/mapped_file.cpp
void export_gguf(Napi::Env env, Napi::Object exports);        // io/gguf_file.cpp
void export_programs(Napi::Env env, Napi::Object exports);    // program/addon.cpp
void export_samplers(Napi::Env env, Napi::Object exports);    // lm/sampler_addon.cpp
void export_generation(Napi::Env env, Napi::Object exports);  // lm/generation_addon.cpp
void export_caches(Napi::Env env, Napi::Object exports);      // lm/addon.cpp

}  // namespace mlx_runners
