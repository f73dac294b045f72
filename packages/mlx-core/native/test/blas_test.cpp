// Matrix products by far more threads than OpenBLAS has room for: it aborts the process at some
// 300, which the libraries in native/blas keep from it.
#include <atomic>

#include "blas/probe.h"
#include "evaluations.h"
#include "harness.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "mlx/transforms.h"
#include "threads.h"

#ifdef __linux__
#include <dlfcn.h>
#endif

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

constexpr int kThreads = 400;
// Large enough for OpenBLAS to take a buffer and threads.
constexpr int kSize = 160;

}  // namespace

#ifdef __linux__
namespace {

/// As libmlx calls it, but without the lanes, which let through no more threads than there are.
using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                      const float* a, int lda, const float* b, int ldb, float beta, float* c,
                      int ldc);
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;

Gemm gemm_of_process() {
  void* library = dlopen(blas_info().library.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  const auto gemm = reinterpret_cast<Gemm>(dlsym(library, "cblas_sgemm"));
  EXPECT(gemm != nullptr);
  return gemm;
}

void use_own_pool() {
  set_blas_pool([](int count, void (*piece)(void*, int), void* context) {
    cpu::parallel_for(count, 1, [&](int64_t i, int64_t) { piece(context, static_cast<int>(i)); });
  });
}

}  // namespace

TEST("the BLAS is ours") {
  const mx::array ones = mx::full({8, 8}, 1.0f, mx::float32, mx::Device::cpu);
  mx::eval({mx::matmul(ones, ones, mx::Device::cpu)});
  EXPECT_EQUAL(blas_info().name, std::string("openblas"));
}

namespace {

void call_from_many_threads() {
  const Gemm gemm = gemm_of_process();
  const std::vector<float> a(kSize * kSize, 0.5f);
  std::atomic<int> wrong{0};
  together(kThreads, [&](int thread) {
    const std::vector<float> b(kSize * kSize, static_cast<float>(thread));
    std::vector<float> c(kSize * kSize);
    for (int i = 0; i < 5; ++i) {
      gemm(kRowMajor, kNoTranspose, kNoTranspose, kSize, kSize, kSize, 1.0f, a.data(), kSize,
           b.data(), kSize, 0.0f, c.data(), kSize);
      if (c.front() != kSize / 2 * thread || c.back() != kSize / 2 * thread) ++wrong;
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
}

}  // namespace

TEST("400 threads call the BLAS at once") { call_from_many_threads(); }

TEST("400 threads call the BLAS at once, which shares our pool") {
  use_own_pool();
  call_from_many_threads();
}

TEST("products in pieces: every order and transposition, rows with gaps") {
  use_own_pool();
  cpu::set_threads(3);
  const Gemm gemm = gemm_of_process();
  random_cases(60, [&](std::mt19937_64& random) {
    const auto size = [&] { return static_cast<int>(draw(random, 100, 420)); };
    const int order = kRowMajor + static_cast<int>(draw(random, 0, 1));
    const int transpose[2] = {kNoTranspose + static_cast<int>(draw(random, 0, 1)),
                              kNoTranspose + static_cast<int>(draw(random, 0, 1))};
    const int m = size(), n = size(), k = size();
    const auto gap = [&] { return static_cast<int>(draw(random, 0, 3)); };
    // The length of a line in memory, and how many there are.
    const auto lines = [&](int rows, int columns, int transposed) {
      const bool by_rows = (order == kRowMajor) == (transposed == kNoTranspose);
      return std::pair{(by_rows ? columns : rows) + gap(), by_rows ? rows : columns};
    };
    const auto [lda, lines_a] = lines(m, k, transpose[0]);
    const auto [ldb, lines_b] = lines(k, n, transpose[1]);
    const auto [ldc, lines_c] = lines(m, n, kNoTranspose);
    const auto at = [&](int i, int j, int step, int transposed) {
      const bool by_rows = (order == kRowMajor) == (transposed == kNoTranspose);
      return static_cast<size_t>(by_rows ? i * step + j : j * step + i);
    };
    std::vector<float> a(static_cast<size_t>(lda) * lines_a);
    std::vector<float> b(static_cast<size_t>(ldb) * lines_b);
    for (auto* values : {&a, &b}) {
      for (float& value : *values) value = static_cast<float>(draw(random, -4, 4));
    }
    std::vector<float> c(static_cast<size_t>(ldc) * lines_c, 2.0f);
    gemm(order, transpose[0], transpose[1], m, n, k, 0.5f, a.data(), lda, b.data(), ldb, 3.0f,
         c.data(), ldc);
    for (int sample = 0; sample < 300; ++sample) {
      const int i = sample == 0 ? m - 1 : static_cast<int>(draw(random, 0, m - 1));
      const int j = sample == 0 ? n - 1 : static_cast<int>(draw(random, 0, n - 1));
      float sum = 0;  // of small integers: exact
      for (int l = 0; l < k; ++l) {
        sum += a[at(i, l, lda, transpose[0])] * b[at(l, j, ldb, transpose[1])];
      }
      EXPECT_EQUAL(c[at(i, j, ldc, kNoTranspose)], 0.5f * sum + 6.0f);
    }
    // What lies between the lines is not the product's.
    const int line = order == kRowMajor ? n : m;
    for (size_t i = 0; i < c.size(); ++i) {
      if (static_cast<int>(i % static_cast<size_t>(ldc)) >= line) EXPECT_EQUAL(c[i], 2.0f);
    }
  });
}
#endif

TEST("400 threads call MLX's matrix product at once") {
  std::atomic<int> wrong{0};
  together(kThreads, [&](int thread) {
    Builder builder;
    LaneLock lock(builder.lane, builder.stream);
    const auto x =
        mx::full({kSize, kSize}, static_cast<float>(thread), mx::float32, builder.stream);
    const auto half = mx::full({kSize, kSize}, 0.5f, mx::float32, builder.stream);
    mx::array product = mx::matmul(x, half, builder.stream);
    mx::eval({product});
    if (product.data<float>()[0] != kSize / 2 * thread) ++wrong;
  });
  EXPECT_EQUAL(wrong.load(), 0);
}

TEST("400 threads call our matrix product at once") {
  const std::vector<float> weights(kSize * kSize, 0.5f);
  std::atomic<int> wrong{0};
  together(kThreads, [&](int thread) {
    const std::vector<float> x(kSize * kSize, static_cast<float>(thread));
    std::vector<float> out(kSize * kSize);
    const cpu::LeftRows left{x.data(), 0, kSize, kSize, 0, kSize * kSize, kSize};
    for (int i = 0; i < 5; ++i) {
      cpu::matmul_transposed(left, kSize, weights.data(), kSize, nullptr, out.data());
      if (out.front() != kSize / 2 * thread || out.back() != kSize / 2 * thread) ++wrong;
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
}
