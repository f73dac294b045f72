#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "kernels/cpu/pool.h"
#include "system/cgroup.h"

namespace mlx_runners::cpu {
namespace {

#if defined(__linux__)

int affinity_count() {
  // Masks of machines with more than 1024 CPUs don't fit the fixed type: grow until it is taken.
  for (size_t cpus = CPU_SETSIZE; cpus <= (1U << 18); cpus *= 2) {
    std::vector<unsigned long> mask(cpus / (8 * sizeof(unsigned long)));
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const size_t bytes = mask.size() * sizeof(unsigned long);
    if (sched_getaffinity(0, bytes, set) == 0) {
      return CPU_COUNT_S(bytes, set);
    }
  }
  return 0;
}

/// cgroup v2: "max 100000" or "150000 100000" (quota and period in microseconds).
double quota_v2(const std::string& folder) {
  std::istringstream line(cgroup::read_line(folder + "/cpu.max"));
  double quota = 0;
  double period = 0;
  return (line >> quota >> period) && quota > 0 && period > 0 ? quota / period : cgroup::unlimited;
}

/// cgroup v1: -1 in cpu.cfs_quota_us means none.
double quota_v1(const std::string& folder) {
  std::istringstream quota_line(cgroup::read_line(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_line(cgroup::read_line(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  return (quota_line >> quota) && (period_line >> period) && quota > 0 && period > 0
             ? quota / period
             : cgroup::unlimited;
}

#endif

}  // namespace

int available_cpus() {
  int cpus = 0;
#if defined(__linux__)
  cpus = affinity_count();
#endif
  if (cpus <= 0) {
    cpus = static_cast<int>(std::thread::hardware_concurrency());
  }
#if defined(__linux__)
  const double quota = cgroup::tightest("cpu", quota_v2, quota_v1);
  if (quota < cpus) {
    cpus = static_cast<int>(std::ceil(quota));
  }
#endif
  return std::max(cpus, 1);
}

}  // namespace mlx_runners::cpu
