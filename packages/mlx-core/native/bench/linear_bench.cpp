// How fast linear layers are: see bench/linear.mjs, which runs this and keeps the results.
//
//   linear_bench OPENBLAS_LIBRARY [LLAMA_CPP_LIBRARY]     prints one JSON object per row
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "bench/peers.h"
#include "bench/products.h"
#include "bench/weights.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

using namespace mlx_runners;
using namespace mlx_runners::bench;
using cpu::Precision;

namespace {

constexpr double kGigabyte = 1e9;

struct Matrix {
  int64_t columns, depth;
};

bool has_fast_kernel(const Format& format) {
  return cpu::kernels().formats[static_cast<int>(format.format)].dot_fast != nullptr;
}

void read_slice(const uint8_t* slice) {
  constexpr int64_t kChunk = 1 << 18;
  cpu::parallel_for(kSliceBytes / kChunk, 1, [&](int64_t begin, int64_t end) {
    const auto* words = reinterpret_cast<const uint64_t*>(slice + begin * kChunk);
    const int64_t count = (end - begin) * kChunk / 8;
    uint64_t sums[8] = {};
    for (int64_t i = 0; i < count; i += 8) {
      for (int j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    static std::atomic<uint64_t> sink;  // keeps the reads
    for (const uint64_t sum : sums) sink.fetch_add(sum, std::memory_order_relaxed);
  });
}

/// Matrix after matrix, each read from memory, against memory that is only read.
void gemv_and_memory(const std::vector<uint8_t>& arena, const Format& format, Precision precision,
                     Matrix matrix, double goal) {
  const auto [n, k] = matrix;
  if (!fits(format, k) || (precision == Precision::kFast && !has_fast_kernel(format))) return;
  const int64_t count = kSliceBytes / matrix_step(format, n, k);
  QuantisedProduct product(format, precision, 1, n, k, arena.data(), count);
  // A slice of its own for every run: the caches hold nothing of it any more.
  int64_t run = 0;
  const auto next_slice = [&] { return arena.data() + ++run % kSlices * kSliceBytes; };
  const auto multiply = [&] {
    product.weights = next_slice();
    product.multiply();
  };
  const auto read = [&] { read_slice(next_slice()); };
  const auto [ours, peer] = in_turns(multiply, read);
  print({.what = std::string("GEMV ") + format.name + suffix(precision) + shape_name(1, n, k),
         .ours = static_cast<double>(count * product.step) / ours / kGigabyte,
         .peer = static_cast<double>(kSliceBytes) / peer / kGigabyte,
         .peer_name = "memory read",
         .unit = "GB/s",
         .better = Better::kHigher,
         .goal = goal});
}

void gemm_and_openblas(const OpenBlas& openblas, int64_t m, Matrix matrix) {
  const auto [n, k] = matrix;
  DenseProduct product(m, n, k);
  const auto [ours, peer] =
      in_turns([&] { product.multiply(); }, [&] { openblas.multiply(product); });
  const double work = gigaflops(m, n, k);
  print({.what = "GEMM fp32" + shape_name(m, n, k),
         .ours = work / ours,
         .peer = work / peer,
         .peer_name = "OpenBLAS",
         .unit = "GFLOP/s",
         .better = Better::kHigher,
         .goal = 1});
}

void gemm_and_floats(const std::vector<uint8_t>& arena, const Format& format, Precision precision,
                     int64_t m, Matrix matrix) {
  const auto [n, k] = matrix;
  if (!fits(format, k) || (precision == Precision::kFast && !has_fast_kernel(format))) return;
  DenseProduct floats(m, n, k);
  QuantisedProduct product(format, precision, m, n, k, arena.data());
  const auto [ours, peer] = in_turns([&] { product.multiply(); }, [&] { floats.multiply(); });
  const double work = gigaflops(m, n, k);
  print({.what = std::string("GEMM ") + format.name + suffix(precision) + shape_name(m, n, k),
         .ours = work / ours,
         .peer = work / peer,
         .peer_name = "our fp32",
         .unit = "GFLOP/s",
         .better = Better::kHigher,
         .goal = 0});
}

/// A row for how llama.cpp multiplies by default and, if that is with repacked weights, one for the
/// weights as they are, with which it is faster at times. `work`: of a product, per second the
/// unit.
void against_llama_cpp(const LlamaCpp& llama_cpp, QuantisedProduct& product,
                       const std::string& what, double work, const char* unit, double goal) {
  bool repacked = true;
  for (const bool repack : {true, false}) {
    if (!repacked) return;
    const LlamaCppProduct theirs(llama_cpp, product, repack);
    repacked = theirs.repacked();
    const auto [ours, peer] =
        in_turns([&] { product.multiply(); }, [&] { theirs.multiply(); }, kSpinningPeer);
    print({.what = what + product.format.name + " fast" +
                   shape_name(product.rows, product.columns, product.depth),
           .ours = work / ours,
           .peer = work / peer,
           .peer_name = repack ? "llama.cpp" : "llama.cpp --no-repack",
           .unit = unit,
           .better = Better::kHigher,
           .goal = goal});
  }
}

void gemv_and_llama_cpp(const std::vector<uint8_t>& arena, const LlamaCpp& llama_cpp,
                        const Format& format, Matrix matrix) {
  const auto [n, k] = matrix;
  if (!fits(format, k)) return;
  const int64_t count = 2 * kSliceBytes / matrix_step(format, n, k);
  QuantisedProduct product(format, Precision::kFast, 1, n, k, arena.data(), count);
  const double bytes = static_cast<double>(count * product.step) / kGigabyte;
  against_llama_cpp(llama_cpp, product, "GEMV ", bytes, "GB/s", 0);
}

void gemm_and_llama_cpp(const std::vector<uint8_t>& arena, const LlamaCpp& llama_cpp,
                        const Format& format, int64_t m, Matrix matrix, double goal) {
  const auto [n, k] = matrix;
  if (!fits(format, k)) return;
  QuantisedProduct product(format, Precision::kFast, m, n, k, arena.data());
  against_llama_cpp(llama_cpp, product, "GEMM ", gigaflops(m, n, k), "GFLOP/s", goal);
}

/// An exact linear layer of whisper-base's encoder: at most 1.5 times the time of float32.
void whisper_and_floats(const std::vector<uint8_t>& arena, const Format& format, Matrix matrix) {
  constexpr int64_t kFrames = 1500;
  const auto [n, k] = matrix;
  DenseProduct floats(kFrames, n, k);
  QuantisedProduct product(format, Precision::kExact, kFrames, n, k, arena.data());
  const auto [ours, peer] = in_turns([&] { product.multiply(); }, [&] { floats.multiply(); });
  print({.what = std::string("whisper-base linear ") + format.name + " exact" +
                 shape_name(kFrames, n, k),
         .ours = ours * 1e3,
         .peer = peer * 1e3,
         .peer_name = "our fp32",
         .unit = "ms",
         .better = Better::kLower,
         .goal = 1 / 1.5});
}

void bench_gemv(const std::vector<uint8_t>& arena) {
  constexpr Matrix kLarge{4096, 4096};
  constexpr Matrix kSmall{1536, 576};
  constexpr double kGoal = 0.6;
  for (const Format& format : kFloats) {
    gemv_and_memory(arena, format, Precision::kExact, kLarge, kGoal);
    gemv_and_memory(arena, format, Precision::kExact, kSmall, 0);
  }
  for (const Precision precision : {Precision::kExact, Precision::kFast}) {
    for (const Format& format : kBlocks) {
      gemv_and_memory(arena, format, precision, kLarge, kGoal);
      gemv_and_memory(arena, format, precision, kSmall, 0);
    }
    for (const Format& format : kAffine) {
      gemv_and_memory(arena, format, precision, kLarge, 0);
      gemv_and_memory(arena, format, precision, kSmall, 0);
    }
  }
}

void bench_gemm(const std::vector<uint8_t>& arena, const OpenBlas& openblas) {
  gemm_and_openblas(openblas, 512, {2048, 2048});
  for (const Matrix matrix : {Matrix{512, 512}, {2048, 512}, {512, 2048}}) {
    gemm_and_openblas(openblas, 1500, matrix);
  }
  for (const Format& format : kBlocks) {
    for (const Matrix matrix : {Matrix{2048, 2048}, {1536, 576}, {576, 1536}}) {
      gemm_and_floats(arena, format, Precision::kExact, 512, matrix);
      gemm_and_floats(arena, format, Precision::kFast, 512, matrix);
    }
  }
  for (const Format& format : kAffine) {
    for (const Matrix matrix : {Matrix{512, 512}, {2048, 512}, {512, 2048}}) {
      whisper_and_floats(arena, format, matrix);
    }
  }
}

/// The formats of SmolLM2's and of most other models' files on more shapes, and with goals.
void bench_llama_cpp(const std::vector<uint8_t>& arena, const LlamaCpp& llama_cpp) {
  if (!llama_cpp) return;
  for (const Format& format : kBlocks) {
    const bool common = &format == &kQ4_1 || &format == &kQ4_K;
    for (const Matrix matrix : {Matrix{2048, 2048}, {1536, 576}, {576, 1536}, {4096, 4096}}) {
      const bool large = matrix.columns == 4096;
      if (common || !large) {
        gemm_and_llama_cpp(arena, llama_cpp, format, 512, matrix, common ? 1 : 0);
      }
      if (common || large) gemv_and_llama_cpp(arena, llama_cpp, format, matrix);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: linear_bench OPENBLAS_LIBRARY [LLAMA_CPP_LIBRARY]\n");
    return 2;
  }
  std::fprintf(stderr, "%s, %d threads\n", cpu::simd_level(), cpu::threads());
  const std::vector<uint8_t> arena = make_arena();
  bench_gemv(arena);
  bench_gemm(arena, OpenBlas(argv[1]));
  bench_llama_cpp(arena, LlamaCpp(argv[2]));  // argv[argc] is null
}
