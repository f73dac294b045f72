// What the thread pool gives and costs: see bench/threads.mjs, which runs this and keeps the
// results.
//
//   threads_bench OPENBLAS_LIBRARY [LLAMA_CPP_LIBRARY]     prints one JSON object per row
//   threads_bench busy CPU                                 keeps a CPU busy, for the former
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/busy_core.h"
#include "bench/measure.h"
#include "bench/peers.h"
#include "bench/products.h"
#include "bench/weights.h"
#include "kernels/cpu/pool.h"

using namespace mlx_runners;
using namespace mlx_runners::bench;
using cpu::Precision;

namespace {

/// With half of a second core taken there are three of four parts left, and so should be the speed.
/// The scheduler decides how much it is, so the goal is that the time it gives is put to use.
void print_kept(const std::string& what, const Kept& ours) {
  constexpr double kGoal = 0.85;
  print({.what = what + " beside a busy core, speed per CPU time",
         .ours = ours.speed,
         .peer = ours.cpu_time,
         .peer_name = "CPU time got",
         .unit = "of undisturbed",
         .better = Better::kHigher,
         .goal = kGoal});
}

void print_kept_by_peer(const std::string& what, const Kept& ours, const Kept& theirs,
                        const char* peer) {
  print({.what = what + " beside a busy core, speed kept",
         .ours = ours.speed,
         .peer = theirs.speed,
         .peer_name = peer,
         .unit = "of undisturbed",
         .better = Better::kHigher,
         .goal = 0});
}

void bench_busy_core(const std::vector<uint8_t>& arena, const char* openblas,
                     const LlamaCpp& llama_cpp) {
  const auto quantised = [&](const std::string& what, QuantisedProduct product) {
    const Kept ours = kept_beside_busy_core([&] { product.multiply(); });
    print_kept(what, ours);
    if (!llama_cpp) return;
    const LlamaCppProduct peer(llama_cpp, product, true);
    print_kept_by_peer(what, ours, kept_beside_busy_core([&] { peer.multiply(); }), "llama.cpp");
  };
  const int64_t matrices = kSliceBytes / matrix_step(kQ4_K, 4096, 4096);
  quantised("GEMV Q4_K fast" + shape_name(1, 4096, 4096),
            QuantisedProduct(kQ4_K, Precision::kFast, 1, 4096, 4096, arena.data(), matrices));
  quantised("GEMM Q4_K fast" + shape_name(512, 2048, 2048),
            QuantisedProduct(kQ4_K, Precision::kFast, 512, 2048, 2048, arena.data()));

  DenseProduct dense(512, 2048, 2048);
  const std::string what = "GEMM fp32" + shape_name(512, 2048, 2048);
  const Kept ours = kept_beside_busy_core([&] { dense.multiply(); });
  print_kept(what, ours);
  const OpenBlas blas(openblas);
  print_kept_by_peer(what, ours, kept_beside_busy_core([&] { blas.multiply(dense); }), "OpenBLAS");
}

/// Lets time pass without giving up the CPU.
void idle(std::chrono::microseconds time) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < time) {
  }
}

/// Seconds a call takes, `gap` after the one before.
double call_time(const Work& multiply, std::chrono::microseconds gap, int calls) {
  double time = 0;
  for (int i = 0; i < calls; ++i) {
    idle(gap);
    time += seconds(multiply);
  }
  return time / calls;
}

/// The best time of a call on all threads and on one, in turns.
void print_call(const std::string& what, const Work& multiply, std::chrono::microseconds gap) {
  constexpr int kTurns = 8;
  const int all = cpu::threads();
  const int calls = gap.count() > 0 ? 40 : 500;
  double best[2] = {1e9, 1e9};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const int threads : {all, 1}) {
      cpu::set_threads(threads);
      call_time(multiply, std::chrono::microseconds(0), 50);  // threads start
      double& time = best[threads == all ? 0 : 1];
      time = std::min(time, call_time(multiply, gap, calls));
    }
  }
  cpu::set_threads(all);
  print({.what = what,
         .ours = best[0] * 1e6,
         .peer = best[1] * 1e6,
         .peer_name = "one thread",
         .unit = "us a call",
         .better = Better::kLower,
         .goal = 0});
}

void bench_small_products(const std::vector<uint8_t>& arena) {
  using std::chrono::microseconds;
  // While the pool still looks out for work, and when it sleeps.
  for (const auto& [gap, when] : {std::pair{microseconds(0), ", one after another"},
                                  std::pair{microseconds(300), ", after 300 us"}}) {
    for (const int64_t size : {64, 256, 576}) {
      const std::string name = shape_name(1, size, size) + when;
      DenseProduct dense(1, size, size);
      print_call("call fp32" + name, [&] { dense.multiply(); }, gap);
      for (const Precision precision : {Precision::kExact, Precision::kFast}) {
        QuantisedProduct product(kQ4_1, precision, 1, size, size, arena.data());
        print_call(
            std::string("call Q4_1") + suffix(precision) + name, [&] { product.multiply(); }, gap);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "busy") keep_busy(std::atoi(argv[2]));
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: threads_bench OPENBLAS_LIBRARY [LLAMA_CPP_LIBRARY]\n");
    return 2;
  }
  const std::vector<uint8_t> arena = make_arena();
  bench_small_products(arena);
  bench_busy_core(arena, argv[1], LlamaCpp(argv[2]));  // argv[argc] is null
}
