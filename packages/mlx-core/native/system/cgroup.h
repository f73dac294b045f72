// Limits that Linux's control groups set for this process.
#pragma once

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace mlx_runners::cgroup {

inline constexpr double unlimited = std::numeric_limits<double>::infinity();

inline std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The tightest limit from `group` up to the hierarchy's root. Inside a container the path may name
/// folders that only the host sees; their ancestors still end at the mounted root.
template <typename Limit>
double tightest_above(const std::string& root, std::string group, const Limit& limit) {
  double least = limit(root);
  while (group.size() > 1) {
    least = std::min(least, limit(root + group));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return least;
}

/// The tightest limit of one controller. `v2` and `v1` read it from a group's folder and give
/// `unlimited` where it sets none. The last two arguments are for tests.
template <typename V2, typename V1>
double tightest(const std::string& controller, const V2& v2, const V1& v1,
                const std::string& groups_file = "/proc/self/cgroup",
                const std::string& root = "/sys/fs/cgroup") {
  double least = unlimited;
  std::ifstream groups(groups_file);
  for (std::string line; std::getline(groups, line);) {  // "hierarchy:controllers:path"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      least = std::min(least, tightest_above(root, path, v2));
    } else if (controllers.find(',' + controller + ',') != std::string::npos) {
      least = std::min(least, tightest_above(root + "/" + controller, path, v1));
    }
  }
  return least;
}

}  // namespace mlx_runners::cgroup
