// What the bench calls in the library that peer.cpp is compiled to.
#pragma once

#include <cstdint>

struct LlamaCppProducts;

/// Products x · wᵀ with several matrices of one shape.
struct LlamaCppOperands {
  const char* format;      // ggml's name, in either case
  const uint8_t* weights;  // blocks of the first matrix [columns, depth]
  int64_t step;            // bytes from one matrix to the next
  int64_t matrices;
  int64_t columns;
  int64_t depth;
  const float* x;  // [rows, depth]
  int64_t rows;
  bool repack;  // weights, where llama.cpp does so by default
};

struct LlamaCppPeer {
  /// Copies the operands; null for a format that there is not.
  LlamaCppProducts* (*open)(const LlamaCppOperands& operands, int threads);
  bool (*repacked)(const LlamaCppProducts* products);
  void (*multiply)(LlamaCppProducts* products);
  /// The product with the first matrix, [rows, columns].
  void (*result)(const LlamaCppProducts* products, float* out);
  void (*close)(LlamaCppProducts* products);
};

/// Name of the function that returns `const LlamaCppPeer*`.
constexpr const char* kLlamaCppPeer = "llama_cpp_peer";
