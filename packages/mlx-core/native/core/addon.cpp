// The addon's entry, run once per JavaScript environment.
#include <napi.h>

#include <cstdlib>
#include <cstring>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "blas/probe.h"
#include "core/environment.h"
#include "core/exports.h"
#include "core/guard.h"
#include "kernels/cpu/pool.h"
#include "mlx/compile.h"
#include "mlx/version.h"

namespace mlx_runners {
namespace {

// What holds for the whole process, before the first array is made.
void prepare_process() {
  static const bool once = [] {
#ifdef __GLIBC__
    // Each thread's arena keeps what it freed; large buffers go back to the system only when they
    // are mapped on their own, and glibc raises this threshold by itself unless it is set.
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
#endif
    // On the CPU, compile() starts the system's C++ compiler at run time.
    mlx::core::disable_compile();
    // OpenBLAS counts the machine's CPUs, the pool those of the container.
    set_blas_threads(cpu::threads());
    set_blas_pool([](int count, void (*piece)(void*, int), void* context) {
      cpu::parallel_for(count, 1,
                        [&](int64_t index, int64_t) { piece(context, static_cast<int>(index)); });
    });
    return true;
  }();
  (void)once;
}

// glibc silently takes a libmlx that is already loaded for the one this addon was built against.
void check_version() {
  const std::string built = std::to_string(MLX_VERSION_MAJOR) + "." +
                            std::to_string(MLX_VERSION_MINOR) + "." +
                            std::to_string(MLX_VERSION_PATCH);
  if (mlx::core::version() != built) {
    throw CodedError("NATIVE", "libmlx " + std::string(mlx::core::version()) +
                                   " is loaded in this process, but mlx-core was built for " +
                                   built + ". Is another MLX library in use?");
  }
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  guarded(env, [&]() -> napi_value {
    check_version();
    prepare_process();
    env.SetInstanceData(new Environment(env));
    export_calls(env, exports);
    export_transfers(env, exports);
    export_runtime(env, exports);
    export_files(env, exports);
    export_gguf(env, exports);
    export_programs(env, exports);
    export_samplers(env, exports);
    export_generation(env, exports);
    export_caches(env, exports);
    return nullptr;
  });
  return exports;
}

}  // namespace

NODE_API_MODULE(mlx_core, init)

}  // namespace mlx_runners
