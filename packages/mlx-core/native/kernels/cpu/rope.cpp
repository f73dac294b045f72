#include "kernels/cpu/rope.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/scratch.h"

namespace mlx_runners::cpu {
namespace {

// Elements in a piece: some microseconds of work.
constexpr int64_t kPiece = 16384;

void fill_frequencies(const Rope& op, float* frequencies) {
  const int64_t half = op.dims / 2;
  if (op.freqs != nullptr) {
    for (int64_t i = 0; i < half; ++i) {
      frequencies[i] = 1.0f / op.freqs[i];
    }
    return;
  }
  const double ratio = std::exp(-std::log(static_cast<double>(op.base)) / half);
  double frequency = 1.0;
  for (int64_t i = 0; i < half; ++i) {
    frequencies[i] = static_cast<float>(frequency);
    frequency *= ratio;
  }
}

/// Cosines and sines of one position, as the kernel wants them.
void fill_angles(const Rope& op, const float* frequencies, float position, float* cosines,
                 float* sines) {
  const int64_t half = op.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float angle = position * frequencies[i];
    const float cosine = std::cos(angle);
    const float sine = std::sin(angle);
    if (op.traditional) {
      cosines[2 * i] = cosine;
      cosines[2 * i + 1] = cosine;
      sines[2 * i] = -sine;
      sines[2 * i + 1] = sine;
    } else {
      cosines[i] = cosine;
      sines[i] = sine;
    }
  }
}

}  // namespace

void rope(const Rope& op, int64_t batches) {
  const KernelTable& table = kernels();
  const Scratch frequencies(static_cast<size_t>(op.dims / 2));
  fill_frequencies(op, frequencies.data());
  const int64_t grain = std::max<int64_t>(1, kPiece / (op.heads * op.columns));
  // A position's angles serve all heads.
  parallel_for(batches * op.positions, grain, [&](int64_t begin, int64_t end) {
    const Scratch angles(static_cast<size_t>(2 * op.dims));
    float* cosines = angles.data();
    float* sines = cosines + op.dims;
    for (int64_t index = begin; index < end; ++index) {
      const int64_t batch = index / op.positions;
      const int64_t position = index % op.positions;
      const int32_t offset = op.offsets != nullptr ? op.offsets[batch * op.offset_step] : op.offset;
      const auto at = static_cast<float>(offset + position);
      fill_angles(op, frequencies.data(), at * op.scale, cosines, sines);
      table.rope_rows({.x = op.x + batch * op.x_strides[0] + position * op.x_strides[2],
                       .y = op.y + batch * op.y_strides[0] + position * op.y_strides[2],
                       .x_step = op.x_strides[1],
                       .y_step = op.y_strides[1],
                       .rows = op.heads,
                       .columns = op.columns,
                       .dims = op.dims,
                       .traditional = op.traditional},
                      cosines, sines);
    }
  });
}

}  // namespace mlx_runners::cpu
