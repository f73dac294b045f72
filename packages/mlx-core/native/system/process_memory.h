// How much memory the system lets this process have.
#pragma once

#include <cstddef>
#include <string>

namespace mlx_runners {

/// Bytes of the machine's memory, or of the control group's share of it.
size_t process_memory();

/// The tightest limit of the control groups that this process is in; infinity when there is none.
/// The arguments are for tests.
double cgroup_memory(const std::string& groups_file = "/proc/self/cgroup",
                     const std::string& root = "/sys/fs/cgroup");

/// Bytes of the machine's memory that nothing uses, caches included; 0 where that is unknown.
size_t free_memory();

/// Bytes that can still be mapped before RLIMIT_AS (`ulimit -v`) is met.
size_t address_space_left();

}  // namespace mlx_runners
