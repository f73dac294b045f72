#include "kernels/cpu/rope.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/pool.h"

namespace mlx_runners::cpu {
namespace {

// Elements in a piece: some microseconds of work.
constexpr int64_t kPiece = 16384;

}  // namespace

Frequencies::Frequencies(const Rotation& rotation)
    : rotation_(rotation), data_(static_cast<size_t>(rotation.dims / 2)) {
  const int64_t half = rotation.dims / 2;
  float* frequencies = data_.data();
  if (rotation.freqs != nullptr) {
    for (int64_t i = 0; i < half; ++i) {
      frequencies[i] = 1.0f / rotation.freqs[i];
    }
    return;
  }
  const double ratio = std::exp(-std::log(static_cast<double>(rotation.base)) / half);
  double frequency = 1.0;
  for (int64_t i = 0; i < half; ++i) {
    frequencies[i] = static_cast<float>(frequency);
    frequency *= ratio;
  }
}

Angles::Angles(const Frequencies& frequencies)
    : frequencies_(frequencies), data_(static_cast<size_t>(2 * frequencies.rotation().dims)) {}

void Angles::set(int64_t position) {
  const Rotation& rotation = frequencies_.rotation();
  float* cosines = data_.data();
  float* sines = cosines + rotation.dims;
  const float scaled = static_cast<float>(position) * rotation.scale;
  const int64_t half = rotation.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float angle = scaled * frequencies_.data()[i];
    const float cosine = std::cos(angle);
    const float sine = std::sin(angle);
    if (rotation.traditional) {
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

void Angles::turn(const float* x, int64_t x_step, float* y, int64_t y_step, int64_t rows,
                  int64_t columns) const {
  const Rotation& rotation = frequencies_.rotation();
  kernels().rope_rows({.x = x,
                       .y = y,
                       .x_step = x_step,
                       .y_step = y_step,
                       .rows = rows,
                       .columns = columns,
                       .dims = rotation.dims,
                       .traditional = rotation.traditional},
                      data_.data(), data_.data() + rotation.dims);
}

void rope(const Rope& op, int64_t batches) {
  const Frequencies frequencies(op);
  const int64_t grain = std::max<int64_t>(1, kPiece / (op.heads * op.columns));
  // A position's angles serve all heads.
  parallel_for(batches * op.positions, grain, [&](int64_t begin, int64_t end) {
    Angles angles(frequencies);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t batch = index / op.positions;
      const int64_t position = index % op.positions;
      const int32_t offset = op.offsets != nullptr ? op.offsets[batch * op.offset_step] : op.offset;
      angles.set(offset + position);
      angles.turn(op.x + batch * op.x_strides[0] + position * op.x_strides[2], op.x_strides[1],
                  op.y + batch * op.y_strides[0] + position * op.y_strides[2], op.y_strides[1],
                  op.heads, op.columns);
    }
  });
}

}  // namespace mlx_runners::cpu
