#pragma once

#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "mlx/backend/cpu/encoder.h"
#include "mlx/primitives.h"

namespace mlx_runners::cpu {

/// The same computation in MLX's own ops.
using Composed = std::function<std::vector<mlx::core::array>(const std::vector<mlx::core::array>&)>;

/// A primitive with a fused CPU kernel, whose transforms are those of its composed form.
class FusedPrimitive : public mlx::core::Primitive {
 public:
  FusedPrimitive(mlx::core::Stream stream, Composed composed)
      : Primitive(stream), composed_(std::move(composed)) {}

  /// A kernel with one result implements this, one with several the other.
  virtual void eval_cpu(const std::vector<mlx::core::array>& inputs, mlx::core::array& out);
  void eval_cpu(const std::vector<mlx::core::array>& inputs,
                std::vector<mlx::core::array>& outputs) override {
    eval_cpu(inputs, outputs[0]);
  }
  void eval_gpu(const std::vector<mlx::core::array>& inputs,
                std::vector<mlx::core::array>& outputs) override;

  /// The first input's shape, unless the kernel says otherwise.
  std::vector<mlx::core::Shape> output_shapes(
      const std::vector<mlx::core::array>& inputs) override {
    return {inputs[0].shape()};
  }

  std::vector<mlx::core::array> vjp(const std::vector<mlx::core::array>& primals,
                                    const std::vector<mlx::core::array>& cotangents,
                                    const std::vector<int>& argnums,
                                    const std::vector<mlx::core::array>& outputs) override;
  std::vector<mlx::core::array> jvp(const std::vector<mlx::core::array>& primals,
                                    const std::vector<mlx::core::array>& tangents,
                                    const std::vector<int>& argnums) override;
  std::pair<std::vector<mlx::core::array>, std::vector<int>> vmap(
      const std::vector<mlx::core::array>& inputs, const std::vector<int>& axes) override;

 private:
  Composed by_argnums(const std::vector<mlx::core::array>& primals,
                      const std::vector<int>& argnums) const;

  Composed composed_;
};

/// While one lives, its thread builds arrays with MLX's own primitives only: others, MLX can't
/// write to a file.
class MlxPrimitivesOnly {
 public:
  MlxPrimitivesOnly();
  ~MlxPrimitivesOnly();
  MlxPrimitivesOnly(const MlxPrimitivesOnly&) = delete;
  MlxPrimitivesOnly& operator=(const MlxPrimitivesOnly&) = delete;

  static bool active();
};

/// Whether `arrays` may go to a float32 kernel on `stream`: all float32, none empty, none part of a
/// transform in progress.
bool can_fuse(const mlx::core::Stream& stream,
              std::initializer_list<std::reference_wrapper<const mlx::core::array>> arrays);

/// x in row-major order without gaps: itself where it is known to be so, and where only MLX's own
/// primitives are built, since MLX can't write this one, and files hold no layouts.
mlx::core::array contiguous(const mlx::core::array& x, const mlx::core::Stream& stream);

/// Integers and booleans, which hold no fractions, as float32; others as they are.
mlx::core::array inexact(const mlx::core::array& x, const mlx::core::Stream& stream);

/// Queues `task` on `stream`. MLX keeps inputs and outputs of the primitive alive until it has run.
template <typename Task>
void dispatch(const mlx::core::Stream& stream, Task&& task) {
  mlx::core::cpu::get_command_encoder(stream).dispatch(std::forward<Task>(task));
}

/// Allocates `out` row-contiguous.
void allocate(mlx::core::array& out);

/// `x` itself when it is row-contiguous, else a copy that the stream fills before later tasks run.
mlx::core::array row_contiguous(const mlx::core::array& x, const mlx::core::Stream& stream);

/// `x` itself when its last axis is contiguous, else a copy as above.
mlx::core::array contiguous_rows(const mlx::core::array& x, const mlx::core::Stream& stream);

/// Allocates `out` [B, H, T, D] as a view of [B, T, H, D] memory when `like` is one: splitting
/// heads and merging them again then copies nothing.
void allocate_heads_like(const mlx::core::array& like, mlx::core::array& out);

/// Whether `out` may take x's buffer: nobody else uses it, nor would it be kept alive for a small
/// part.
bool can_reuse(const mlx::core::array& x);

/// Gives `out` the layout of `x`, in x's own buffer when nobody else uses it; for kernels that work
/// along whole rows. Returns the array to read: `x`, or a copy when its rows aren't contiguous.
mlx::core::array share_layout(const mlx::core::array& x, mlx::core::array& out,
                              const mlx::core::Stream& stream);

}  // namespace mlx_runners::cpu
