#include "kernels/cpu/dispatch.h"

#include <cstdlib>
#include <string>
#include <vector>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace mlx_runners::cpu {

namespace baseline {
extern const KernelTable kKernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kKernels;
}
namespace avx2vnni {
extern const KernelTable kKernels;
}
namespace avx512 {
extern const KernelTable kKernels;
}
namespace avx512vnni {
extern const KernelTable kKernels;
}
#elif defined(__aarch64__)
namespace neon {
extern const KernelTable kKernels;
}
namespace neondotprod {
extern const KernelTable kKernels;
}
#endif

namespace {

struct Choice {
  const KernelTable* table;
  std::string note;
};

struct Level {
  const KernelTable* table;
  bool supported;
};

#if defined(__aarch64__)
bool has_dotprod() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__APPLE__)
  int has = 0;
  size_t size = sizeof(has);
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has == 1;
#else
  return false;
#endif
}
#endif

/// All levels compiled in, best first. The builtins ask the operating system's state as well.
std::vector<Level> levels() {
  std::vector<Level> all;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("f16c");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  all.push_back({&avx512vnni::kKernels, has_avx512 && __builtin_cpu_supports("avx512vnni")});
  all.push_back({&avx512::kKernels, has_avx512});
  all.push_back({&avx2vnni::kKernels, has_avx2 && __builtin_cpu_supports("avxvnni")});
  all.push_back({&avx2::kKernels, has_avx2});
#elif defined(__aarch64__)
  all.push_back({&neondotprod::kKernels, has_dotprod()});
  all.push_back({&neon::kKernels, true});
#endif
  all.push_back({&baseline::kKernels, true});
  return all;
}

Choice choose() {
  const std::vector<Level> all = levels();
  const KernelTable* best = nullptr;
  for (const Level& level : all) {
    if (level.supported) {
      best = level.table;
      break;
    }
  }
  const char* wish = std::getenv("MLX_RUNNERS_SIMD");
  if (wish == nullptr || *wish == '\0') {
    return {best, ""};
  }
  const std::string asked(wish);
  for (const Level& level : all) {
    if (asked == level.table->name) {
      return level.supported ? Choice{level.table, ""}
                             : Choice{best, "MLX_RUNNERS_SIMD=" + asked +
                                                ": this CPU can't run it; using " + best->name};
    }
  }
  return {best, "MLX_RUNNERS_SIMD=" + asked + " is unknown here; using " + best->name};
}

// Leaked: stream threads may ask until the process ends.
const Choice& choice() {
  static const Choice& chosen = *new Choice(choose());
  return chosen;
}

}  // namespace

const KernelTable& kernels() { return *choice().table; }

const char* simd_level() { return choice().table->name; }

const char* simd_note() { return choice().note.c_str(); }

}  // namespace mlx_runners::cpu
