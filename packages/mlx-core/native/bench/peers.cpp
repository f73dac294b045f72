#include "bench/peers.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cpu/pool.h"

namespace mlx_runners::bench {
namespace {

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

template <typename Function>
Function function_of(void* library, const char* name) {
  void* address = library == nullptr ? nullptr : dlsym(library, name);
  if (address == nullptr) fail(dlerror());
  return reinterpret_cast<Function>(address);
}

/// ‖a - b‖ / ‖b‖
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double square = 0;
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    square += (a[i] - b[i]) * (a[i] - b[i]);
    total += b[i] * b[i];
  }
  return std::sqrt(square / total);
}

}  // namespace

OpenBlas::OpenBlas(const char* path) {
  // Its threads wait for work by spinning, which would slow down what is measured in turns with it.
  setenv("OPENBLAS_THREAD_TIMEOUT", "4", 1);
  void* library = dlopen(path, RTLD_NOW);
  function_of<void (*)(int)>(library, "scipy_openblas_set_num_threads")(cpu::threads());
  sgemm_ = function_of<decltype(sgemm_)>(library, "scipy_cblas_sgemm");
}

void OpenBlas::multiply(DenseProduct& product) const {
  constexpr int kRowMajor = 101;
  constexpr int kAsIs = 111;
  constexpr int kTransposed = 112;
  const auto rows = static_cast<int>(product.rows);
  const auto columns = static_cast<int>(product.columns);
  const auto depth = static_cast<int>(product.depth);
  sgemm_(kRowMajor, kAsIs, kTransposed, rows, columns, depth, 1, product.x.data(), depth,
         product.w.data(), depth, 0, product.y.data(), columns);
}

LlamaCpp::LlamaCpp(const char* path) {
  if (path == nullptr) return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  peer_ = function_of<const LlamaCppPeer* (*)()>(library, kLlamaCppPeer)();
}

LlamaCppProduct::LlamaCppProduct(const LlamaCpp& llama_cpp, QuantisedProduct& ours, bool repack)
    : peer_(llama_cpp.peer()),
      products_(peer_.open({.format = ours.format.name,
                            .weights = ours.weights,
                            .step = ours.step,
                            .matrices = ours.matrices,
                            .columns = ours.columns,
                            .depth = ours.depth,
                            .x = ours.x.data(),
                            .rows = ours.rows,
                            .repack = repack},
                           cpu::threads())) {
  if (products_ == nullptr) fail(std::string("llama.cpp has no format ") + ours.format.name);
  // The first of several, which our product overwrites.
  QuantisedProduct first(ours.format, ours.precision, ours.rows, ours.columns, ours.depth,
                         ours.weights);
  first.multiply();
  multiply();
  std::vector<float> theirs(first.y.size());
  peer_.result(products_, theirs.data());
  // Both round x to 8 bits, but not in groups of the same size.
  constexpr double kRounding = 0.03;
  const double off = difference(first.y, theirs);
  if (!(off < kRounding)) {
    fail(std::string("Ours and llama.cpp's product with ") + ours.format.name + " differ by " +
         std::to_string(off));
  }
}

}  // namespace mlx_runners::bench
