// What is left of a product's speed while another program takes a core.
#pragma once

#include "bench/measure.h"

namespace mlx_runners::bench {

/// Of undisturbed speed and CPU time, the shares kept beside a process that never rests on one of
/// this process's CPUs.
struct Kept {
  double speed;
  double cpu_time;
};
Kept kept_beside_busy_core(const Work& work);

/// What that process does: runs on this CPU until it is killed or its parent ends.
[[noreturn]] void keep_busy(int cpu);

}  // namespace mlx_runners::bench
