#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "kernels/cpu/pool.h"

namespace mlx_runners::cpu {
namespace {

#if defined(__linux__)

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

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

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// cgroup v2: "max 100000" or "150000 100000" (quota and period in microseconds).
double quota_v2(const std::string& folder) {
  std::istringstream line(read_line(folder + "/cpu.max"));
  double quota = 0;
  double period = 0;
  return (line >> quota >> period) && quota > 0 && period > 0 ? quota / period : kNoQuota;
}

/// cgroup v1: -1 in cpu.cfs_quota_us means none.
double quota_v1(const std::string& folder) {
  std::istringstream quota_line(read_line(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_line(read_line(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  return (quota_line >> quota) && (period_line >> period) && quota > 0 && period > 0
             ? quota / period
             : kNoQuota;
}

/// The tightest quota from `group` up to the hierarchy's root. Inside a container the path may name
/// folders that only the host sees; their ancestors still end at the mounted root.
template <typename Quota>
double tightest(const std::string& root, std::string group, const Quota& quota) {
  double cpus = quota(root);
  while (group.size() > 1) {
    cpus = std::min(cpus, quota(root + group));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return cpus;
}

double cgroup_quota() {
  double cpus = kNoQuota;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "hierarchy:controllers:path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      cpus = std::min(cpus, tightest("/sys/fs/cgroup", path, quota_v2));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      cpus = std::min(cpus, tightest("/sys/fs/cgroup/cpu", path, quota_v1));
    }
  }
  return cpus;
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
  const double quota = cgroup_quota();
  if (quota < cpus) {
    cpus = static_cast<int>(std::ceil(quota));
  }
#endif
  return std::max(cpus, 1);
}

}  // namespace mlx_runners::cpu
