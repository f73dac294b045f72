// How fast linear layers are: see bench/linear.mjs, which runs this and keeps the results.
//
//   linear_bench OPENBLAS_LIBRARY     prints one JSON object per row
//
// Ours and its peer are measured in turns, and of each the best time counts.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/quantized_matmul.h"

using namespace mlx_runners;
using namespace mlx_runners::cpu;

namespace {

// Well beyond the caches, and read in slices: short turns find a moment in which nobody disturbs.
constexpr int64_t kArena = int64_t{384} << 20;
constexpr int64_t kSlices = 6;
constexpr int64_t kSlice = kArena / kSlices;
constexpr double kGigabyte = 1e9;

struct Format {
  const char* name;
  WeightFormat format;
  int group;
};
constexpr Format kBlocks[] = {
    {"F32", WeightFormat::F32, 0},   {"F16", WeightFormat::F16, 0},
    {"BF16", WeightFormat::BF16, 0}, {"Q4_0", WeightFormat::Q4_0, 0},
    {"Q4_1", WeightFormat::Q4_1, 0}, {"Q5_0", WeightFormat::Q5_0, 0},
    {"Q5_1", WeightFormat::Q5_1, 0}, {"Q8_0", WeightFormat::Q8_0, 0},
    {"Q4_K", WeightFormat::Q4_K, 0}, {"Q5_K", WeightFormat::Q5_K, 0},
    {"Q6_K", WeightFormat::Q6_K, 0},
};
constexpr Format kAffine[] = {
    {"4w", WeightFormat::Affine4_F16, 64},
    {"8w", WeightFormat::Affine8_F16, 64},
};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The best times of both, taken in turns.
std::pair<double, double> in_turns(const std::function<void()>& ours,
                                   const std::function<void()>& peer, int turns = 9) {
  double best_ours = 1e9;
  double best_peer = 1e9;
  for (int i = 0; i < turns; ++i) {
    best_ours = std::min(best_ours, seconds(ours));
    best_peer = std::min(best_peer, seconds(peer));
  }
  return {best_ours, best_peer};
}

void print_row(const std::string& what, double ours, double peer, const char* peer_name,
               const char* unit, const char* better, double goal) {
  std::printf("{\"what\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"peerName\":\"%s\",\"unit\":\"%s\",",
              what.c_str(), ours, peer, peer_name, unit);
  const std::string goal_text = goal > 0 ? std::to_string(goal) : "null";
  std::printf("\"better\":\"%s\",\"goal\":%s}\n", better, goal_text.c_str());
  std::fflush(stdout);
}

/// Bytes that are no infinite or NaN numbers of 16 or 32 bits.
std::vector<uint8_t> make_arena() {
  std::vector<uint8_t> bytes(static_cast<size_t>(kArena));
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < kArena; i += 8) {
    const uint64_t word = random() & 0xbbffbbffbbffbbffULL;
    std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8, bytes.data() + i);
  }
  return bytes;
}

int64_t bytes_of(const WeightMatrix& w, const Format& format) {
  const int64_t scales = format.group > 0 ? w.rows.depth / format.group * 4 : 0;
  return w.columns * (w.rows.row_bytes + scales);
}

/// A matrix anywhere in the arena.
WeightMatrix matrix_at(const uint8_t* arena, const Format& format, int64_t columns, int64_t depth) {
  WeightMatrix w{.format = format.format, .rows = {}, .columns = columns};
  w.rows.codes = arena;
  w.rows.depth = depth;
  if (format.group == 0) {
    const auto [weights, bytes] = block_size(static_cast<BlockFormat>(format.format));
    w.rows.row_bytes = depth / weights * bytes;
    return w;
  }
  w.rows.row_bytes = depth * (format.format == WeightFormat::Affine4_F16 ? 4 : 8) / 8;
  w.rows.scale_step = depth / format.group;
  w.rows.group_shift = format.group == 64 ? 1 : 0;
  w.rows.scales = arena + columns * w.rows.row_bytes;
  w.rows.biases = w.rows.scales + columns * w.rows.scale_step * 2;
  return w;
}

void read_slice(const uint8_t* slice) {
  constexpr int64_t kChunk = 1 << 18;
  parallel_for(kSlice / kChunk, 1, [&](int64_t begin, int64_t end) {
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

std::string shape_name(int64_t m, int64_t n, int64_t k) {
  return " M=" + std::to_string(m) + " N=" + std::to_string(n) + " K=" + std::to_string(k);
}

/// Matrix after matrix, each read from memory, against memory that is only read.
void bench_gemv(const std::vector<uint8_t>& arena, const Format& format, Precision precision,
                int64_t n, int64_t k) {
  if (k % block_weights(format.format) != 0) return;
  const std::vector<float> x(static_cast<size_t>(k), 0.5f);
  std::vector<float> y(static_cast<size_t>(n));
  const int64_t step = (bytes_of(matrix_at(arena.data(), format, n, k), format) + 63) / 64 * 64;
  const int64_t count = kSlice / step;
  int64_t turn = 0;
  const auto multiply_all = [&] {
    const uint8_t* slice = arena.data() + ++turn % kSlices * kSlice;
    for (int64_t i = 0; i < count; ++i) {
      const WeightMatrix w = matrix_at(slice + i * step, format, n, k);
      quantized_matmul(x.data(), 1, w, nullptr, precision, y.data());
    }
  };
  // Not the same slice, which the caches may hold in part.
  const auto read = [&] { read_slice(arena.data() + (turn + kSlices / 2) % kSlices * kSlice); };
  const auto [ours, peer] = in_turns(multiply_all, read, 40);
  const bool exact = precision == Precision::kExact;
  print_row(std::string("GEMV ") + format.name + (exact ? " exact" : " fast") + shape_name(1, n, k),
            static_cast<double>(count * step) / ours / kGigabyte,
            static_cast<double>(kSlice) / peer / kGigabyte, "memory read", "GB/s", "higher",
            format.group == 0 && n * k > 4000000 ? 0.6 : 0);
}

struct Dense {
  std::vector<float> x, w, y;
  LeftRows left;
  int64_t n;

  Dense(int64_t m, int64_t columns, int64_t k)
      : x(static_cast<size_t>(m * k), 0.25f),
        w(static_cast<size_t>(columns * k), 0.5f),
        y(static_cast<size_t>(m * columns)),
        left{.base = x.data(),
             .batch_step = 0,
             .rows = m,
             .row_step = k,
             .row_offset = 0,
             .limit = m * k,
             .depth = k},
        n(columns) {}
  void multiply() { matmul_transposed(left, left.rows, w.data(), n, nullptr, y.data()); }
};

using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

void bench_dense(Sgemm sgemm, int64_t m, int64_t n, int64_t k) {
  Dense dense(m, n, k);
  const auto blas = [&] {
    const auto [rows, columns, depth] = std::tuple(int(m), int(n), int(k));
    sgemm(101, 111, 112, rows, columns, depth, 1.0f, dense.x.data(), depth, dense.w.data(), depth,
          0.0f, dense.y.data(), columns);
  };
  const auto [ours, peer] = in_turns([&] { dense.multiply(); }, blas);
  const double work = 2e-9 * static_cast<double>(m * n * k);
  print_row("GEMM fp32" + shape_name(m, n, k), work / ours, work / peer, "OpenBLAS", "GFLOP/s",
            "higher", 1);
}

void bench_gemm(const std::vector<uint8_t>& arena, const Format& format, Precision precision,
                int64_t m, int64_t n, int64_t k) {
  if (k % block_weights(format.format) != 0) return;
  Dense dense(m, n, k);
  const WeightMatrix w = matrix_at(arena.data(), format, n, k);
  const auto multiply = [&] {
    quantized_matmul(dense.x.data(), m, w, nullptr, precision, dense.y.data());
  };
  const auto [ours, peer] = in_turns(multiply, [&] { dense.multiply(); });
  const double work = 2e-9 * static_cast<double>(m * n * k);
  const bool exact = precision == Precision::kExact;
  print_row(std::string("GEMM ") + format.name + (exact ? " exact" : " fast") + shape_name(m, n, k),
            work / ours, work / peer, "our fp32", "GFLOP/s", "higher", 0);
}

/// An exact linear layer of whisper-base's encoder: at most 1.5 times the time of float32.
void bench_whisper(const std::vector<uint8_t>& arena, const Format& format, int64_t n, int64_t k) {
  constexpr int64_t kFrames = 1500;
  Dense dense(kFrames, n, k);
  const WeightMatrix w = matrix_at(arena.data(), format, n, k);
  const auto multiply = [&] {
    quantized_matmul(dense.x.data(), kFrames, w, nullptr, Precision::kExact, dense.y.data());
  };
  const auto [ours, peer] = in_turns(multiply, [&] { dense.multiply(); }, 15);
  print_row(
      std::string("whisper-base linear ") + format.name + " exact" + shape_name(kFrames, n, k),
      ours * 1e3, peer * 1e3, "our fp32", "ms", "lower", 1 / 1.5);
}

Sgemm load_openblas(const char* path) {
  // Its threads wait for work by spinning, which would slow down what is measured in turns with it.
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1);
  void* library = dlopen(path, RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "scipy_openblas_set_num_threads"));
  set_threads(threads());
  return reinterpret_cast<Sgemm>(dlsym(library, "scipy_cblas_sgemm"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: linear_bench OPENBLAS_LIBRARY\n");
    return 2;
  }
  std::fprintf(stderr, "%s, %d threads\n", simd_level(), threads());
  const std::vector<uint8_t> arena = make_arena();
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{4096, 4096}, {1536, 576}}) {
    for (const Format& format : kBlocks) {
      bench_gemv(arena, format, Precision::kExact, n, k);
      if (format.format > WeightFormat::BF16) bench_gemv(arena, format, Precision::kFast, n, k);
    }
    for (const Format& format : kAffine) {
      bench_gemv(arena, format, Precision::kExact, n, k);
    }
  }
  const Sgemm sgemm = load_openblas(argv[1]);
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{512, 2048, 2048},
                                {1500, 512, 512},
                                {1500, 2048, 512},
                                {1500, 512, 2048}}) {
    bench_dense(sgemm, m, n, k);
  }
  for (const Format& format : kBlocks) {
    if (format.format <= WeightFormat::BF16) continue;
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{2048, 2048}, {1536, 576}, {576, 1536}}) {
      bench_gemm(arena, format, Precision::kExact, 512, n, k);
      bench_gemm(arena, format, Precision::kFast, 512, n, k);
    }
  }
  for (const Format& format : kAffine) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{512, 512}, {2048, 512}, {512, 2048}}) {
      bench_whisper(arena, format, n, k);
    }
  }
}
