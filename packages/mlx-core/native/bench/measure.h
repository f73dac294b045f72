// Times of ours and of a peer, taken in turns, and the rows that are printed of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace mlx_runners::bench {

using Work = std::function<void()>;

/// Wall time, in seconds.
double seconds(const Work& work);

/// The best times of both in seconds, taken in turns for a while. Before each turn a pause lets
/// threads that wait for work by spinning fall asleep; a turn is two runs, the first of which wakes
/// its own.
std::pair<double, double> in_turns(const Work& ours, const Work& peer, double pause_seconds = 0);

/// Pause for a peer on OpenMP, whose threads go on spinning for some 9 ms.
constexpr double kSpinningPeer = 0.02;

enum class Better { kHigher, kLower };

/// A row for bench/*.mjs; a goal of 0 is none.
struct Row {
  std::string what;
  double ours;
  double peer;
  const char* peer_name;
  const char* unit;
  Better better;
  double goal;
};
void print(const Row& row);

/// " M=1 N=2 K=3"
std::string shape_name(int64_t m, int64_t n, int64_t k);

/// 10⁹ operations of a product.
double gigaflops(int64_t m, int64_t n, int64_t k);

}  // namespace mlx_runners::bench
