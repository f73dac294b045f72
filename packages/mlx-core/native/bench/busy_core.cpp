#include "bench/busy_core.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace mlx_runners::bench {
namespace {

constexpr int kTurns = 3;
constexpr double kTurnSeconds = 0.3;

int last_cpu() {
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof cpus, &cpus);
  int last = CPU_SETSIZE - 1;
  while (last > 0 && !CPU_ISSET(last, &cpus)) --last;
  return last;
}

/// A process of this very program that keeps a CPU busy for as long as this object lives.
class BusyCore {
 public:
  BusyCore() {
    std::string program = "threads_bench";
    std::string what = "busy";
    std::string cpu = std::to_string(last_cpu());
    char* argv[] = {program.data(), what.data(), cpu.data(), nullptr};
    if (posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, argv, environ) != 0) {
      std::abort();
    }
    usleep(20'000);  // It has to start.
  }
  ~BusyCore() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  BusyCore(const BusyCore&) = delete;
  BusyCore& operator=(const BusyCore&) = delete;

 private:
  pid_t process_ = 0;
};

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Total {
  double runs = 0;
  double wall = 0;
  double cpu = 0;

  void run(const Work& work) {
    work();
    const double cpu_before = cpu_seconds();
    double spent = 0;
    while (spent < kTurnSeconds) {
      spent += seconds(work);
      ++runs;
    }
    cpu += cpu_seconds() - cpu_before;
    wall += spent;
  }
};

}  // namespace

Kept kept_beside_busy_core(const Work& work) {
  Total alone;
  Total beside;
  for (int turn = 0; turn < kTurns; ++turn) {
    alone.run(work);
    const BusyCore busy;
    beside.run(work);
  }
  return {.speed = beside.runs / beside.wall / (alone.runs / alone.wall),
          .cpu_time = beside.cpu / beside.wall / (alone.cpu / alone.wall)};
}

void keep_busy(int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  for (volatile unsigned count = 0;;) count = count + 1;
}

}  // namespace mlx_runners::bench
