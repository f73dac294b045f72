#include "system/process_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "system/cgroup.h"

namespace mlx_runners {
namespace {

constexpr size_t unlimited = std::numeric_limits<size_t>::max();

size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGE_SIZE)); }

/// memory.max of v2 holds "max" or bytes; v1 writes a number near 2⁶³ when there is no limit.
double bytes_in(const std::string& path) {
  std::istringstream line(cgroup::read_line(path));
  double bytes = 0;
  return (line >> bytes) && bytes > 0 ? bytes : cgroup::unlimited;
}

}  // namespace

double cgroup_memory(const std::string& groups_file, const std::string& root) {
  return cgroup::tightest(
      "memory", [](const std::string& folder) { return bytes_in(folder + "/memory.max"); },
      [](const std::string& folder) { return bytes_in(folder + "/memory.limit_in_bytes"); },
      groups_file, root);
}

size_t process_memory() {
  static const size_t bytes = [] {
    const size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page_size();
    const double group = cgroup_memory();
    return group < static_cast<double>(physical) ? static_cast<size_t>(group) : physical;
  }();
  return bytes;
}

size_t free_memory() {
#ifdef _SC_AVPHYS_PAGES
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page_size();
#else
  return 0;
#endif
}

size_t address_space_left() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unlimited;
  size_t pages = 0;
  if (!(std::ifstream("/proc/self/statm") >> pages)) return unlimited;
  const size_t used = pages * page_size();
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

}  // namespace mlx_runners
