// The libraries that ours is measured against, loaded from the paths that the command line names.
#pragma once

#include "bench/llama_cpp/peer.h"
#include "bench/products.h"

namespace mlx_runners::bench {

/// OpenBLAS, on as many threads as the pool.
class OpenBlas {
 public:
  explicit OpenBlas(const char* library);
  /// The same product as DenseProduct::multiply.
  void multiply(DenseProduct& product) const;

 private:
  void (*sgemm_)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                 float*, int);
};

/// llama.cpp, on as many threads as the pool; not there when `library` is null.
class LlamaCpp {
 public:
  explicit LlamaCpp(const char* library);
  explicit operator bool() const { return peer_ != nullptr; }
  const LlamaCppPeer& peer() const { return *peer_; }

 private:
  const LlamaCppPeer* peer_ = nullptr;
};

/// The same products as QuantisedProduct::multiply. The process ends when their results differ.
class LlamaCppProduct {
 public:
  /// `repack`: as llama.cpp does by default, with some formats; else as with `--no-repack`.
  LlamaCppProduct(const LlamaCpp& llama_cpp, QuantisedProduct& ours, bool repack);
  ~LlamaCppProduct() { peer_.close(products_); }
  LlamaCppProduct(const LlamaCppProduct&) = delete;
  LlamaCppProduct& operator=(const LlamaCppProduct&) = delete;
  bool repacked() const { return peer_.repacked(products_); }
  void multiply() const { peer_.multiply(products_); }

 private:
  const LlamaCppPeer& peer_;
  LlamaCppProducts* products_;
};

}  // namespace mlx_runners::bench
