// Matrix products as llama.cpp computes them in a model's linear layers: one graph of them all,
// weights repacked where it repacks those of a model.
#include "peer.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <strings.h>

#include <cstdio>
#include <memory>

namespace {

template <auto Function>
struct Call {
  template <typename T>
  void operator()(T* pointer) const {
    Function(pointer);
  }
};
using Backend = std::unique_ptr<ggml_backend, Call<ggml_backend_free>>;
using Context = std::unique_ptr<ggml_context, Call<ggml_free>>;
using Buffer = std::unique_ptr<ggml_backend_buffer, Call<ggml_backend_buffer_free>>;

ggml_type type_named(const char* name) {
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const auto type = static_cast<ggml_type>(i);
    if (ggml_type_name(type) != nullptr && strcasecmp(ggml_type_name(type), name) == 0) {
      return type;
    }
  }
  return GGML_TYPE_COUNT;
}

/// A context for tensors whose data lie elsewhere.
Context make_context(int64_t tensors) {
  const auto count = static_cast<size_t>(tensors);
  const size_t bytes = count * ggml_tensor_overhead() + ggml_graph_overhead_custom(count, false);
  return Context(ggml_init({bytes, nullptr, true}));
}

}  // namespace

struct LlamaCppProducts {
  Backend backend;
  Context weights;
  Buffer weight_memory;
  Context products;
  Buffer product_memory;
  ggml_tensor* x = nullptr;
  ggml_cgraph* graph = nullptr;
};

namespace {

/// Makes weights and graph, with the weights in memory of this type. False when llama.cpp can't
/// multiply by weights there.
bool build(LlamaCppProducts& of, ggml_type type, const LlamaCppOperands& operands,
           ggml_backend_buffer_type_t memory) {
  of.weights = make_context(operands.matrices);
  of.products = make_context(2 * operands.matrices + 1);
  ggml_context* products = of.products.get();
  of.x = ggml_new_tensor_2d(products, GGML_TYPE_F32, operands.depth, operands.rows);
  of.graph = ggml_new_graph_custom(products, static_cast<size_t>(2 * operands.matrices + 1), false);
  for (int64_t i = 0; i < operands.matrices; ++i) {
    ggml_tensor* w = ggml_new_tensor_2d(of.weights.get(), type, operands.depth, operands.columns);
    ggml_build_forward_expand(of.graph, ggml_mul_mat(products, w, of.x));
  }
  of.weight_memory.reset(ggml_backend_alloc_ctx_tensors_from_buft(of.weights.get(), memory));
  return of.weight_memory != nullptr &&
         ggml_backend_supports_op(of.backend.get(), ggml_graph_node(of.graph, 0));
}

/// As llama.cpp places a model's weights: in the first special kind of memory, which repacks them,
/// that knows the operation, else in ordinary memory.
bool build_anywhere(LlamaCppProducts& of, ggml_type type, const LlamaCppOperands& operands) {
  ggml_backend_dev_t device = ggml_backend_get_device(of.backend.get());
  const auto special =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  auto* memory = operands.repack ? special(device) : nullptr;
  for (; memory != nullptr && *memory != nullptr; ++memory) {
    if (build(of, type, operands, *memory)) return true;
  }
  return build(of, type, operands, ggml_backend_cpu_buffer_type());
}

LlamaCppProducts* open(const LlamaCppOperands& operands, int threads) {
  const ggml_type type = type_named(operands.format);
  if (type == GGML_TYPE_COUNT) return nullptr;
  auto of = std::make_unique<LlamaCppProducts>();
  of->backend.reset(ggml_backend_cpu_init());
  ggml_backend_cpu_set_n_threads(of->backend.get(), threads);
  if (!build_anywhere(*of, type, operands)) return nullptr;
  of->product_memory.reset(ggml_backend_alloc_ctx_tensors(of->products.get(), of->backend.get()));
  const uint8_t* weights = operands.weights;
  for (ggml_tensor* w = ggml_get_first_tensor(of->weights.get()); w != nullptr;
       w = ggml_get_next_tensor(of->weights.get(), w), weights += operands.step) {
    ggml_backend_tensor_set(w, weights, 0, ggml_nbytes(w));
  }
  ggml_backend_tensor_set(of->x, operands.x, 0, ggml_nbytes(of->x));
  return of.release();
}

void log_errors(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

bool repacked(const LlamaCppProducts* of) {
  return ggml_backend_buffer_get_type(of->weight_memory.get()) != ggml_backend_cpu_buffer_type();
}

void multiply(LlamaCppProducts* of) { ggml_backend_graph_compute(of->backend.get(), of->graph); }

void result(const LlamaCppProducts* of, float* out) {
  const ggml_tensor* first = ggml_graph_node(of->graph, 0);
  ggml_backend_tensor_get(first, out, 0, ggml_nbytes(first));
}

void close(LlamaCppProducts* of) { delete of; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const LlamaCppPeer* llama_cpp_peer() {
  static const LlamaCppPeer peer{open, repacked, multiply, result, close};
  ggml_log_set(log_errors, nullptr);
  return &peer;
}
