#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace mlx_runners::bench {
namespace {

constexpr int kLeastTurns = 5;
constexpr double kTurnsSeconds = 0.6;

}  // namespace

double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::pair<double, double> in_turns(const Work& ours, const Work& peer, double pause_seconds) {
  double spent = 0;
  const auto take_turn = [&](const Work& work, double& best) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause_seconds));
    spent += pause_seconds;
    for (int run = 0; run < 2; ++run) {
      const double time = seconds(work);
      spent += time;
      best = std::min(best, time);
    }
  };
  double best_ours = 1e9;
  double best_peer = 1e9;
  for (int turn = 0; turn < kLeastTurns || spent < kTurnsSeconds; ++turn) {
    take_turn(ours, best_ours);
    take_turn(peer, best_peer);
  }
  return {best_ours, best_peer};
}

void print(const Row& row) {
  const std::string goal = row.goal > 0 ? std::to_string(row.goal) : "null";
  std::printf(
      R"({"what":"%s","ours":%.6g,"peer":%.6g,"peerName":"%s","unit":"%s","better":"%s","goal":%s})"
      "\n",
      row.what.c_str(), row.ours, row.peer, row.peer_name, row.unit,
      row.better == Better::kHigher ? "higher" : "lower", goal.c_str());
  std::fflush(stdout);
}

std::string shape_name(int64_t m, int64_t n, int64_t k) {
  return " M=" + std::to_string(m) + " N=" + std::to_string(n) + " K=" + std::to_string(k);
}

double gigaflops(int64_t m, int64_t n, int64_t k) {
  return 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

}  // namespace mlx_runners::bench
