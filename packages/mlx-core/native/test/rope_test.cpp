// Rotary position embedding on arrays between forbidden pages, against plain loops in double.
#include "kernels/cpu/rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "guarded.h"
#include "harness.h"

using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

/// [batches, heads, positions, columns], laid out so or with heads inside of positions.
std::array<int64_t, 3> draw_strides(const Rope& op, std::mt19937_64& random) {
  if (draw(random, 0, 1) == 1) {
    return {op.heads * op.positions * op.columns, op.columns, op.heads * op.columns};
  }
  return {op.heads * op.positions * op.columns, op.positions * op.columns, op.columns};
}

double angle(const Rope& op, int64_t batch, int64_t position, int64_t i) {
  const double offset = op.offsets != nullptr ? op.offsets[batch * op.offset_step] : op.offset;
  const double frequency = op.freqs != nullptr
                               ? 1.0 / op.freqs[i]
                               : std::pow(static_cast<double>(op.base), -2.0 * i / op.dims);
  return (offset + position) * op.scale * frequency;
}

void check_row(const Rope& op, const double* x, const float* y, int64_t batch, int64_t position) {
  const int64_t half = op.dims / 2;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t a = op.traditional ? 2 * i : i;
    const int64_t b = op.traditional ? 2 * i + 1 : i + half;
    const double turn = angle(op, batch, position, i);
    // Rounding the position, the frequency and their product.
    const double tolerance = 1e-6 + 2e-7 * std::abs(turn);
    expect_near(y[a], x[a] * std::cos(turn) - x[b] * std::sin(turn), tolerance, "rope");
    expect_near(y[b], x[a] * std::sin(turn) + x[b] * std::cos(turn), tolerance, "rope");
  }
  for (int64_t i = op.dims; i < op.columns; ++i) expect_near(y[i], x[i], 0, "what stays");
}

}  // namespace

TEST("rope") {
  require_level();
  random_cases(300, [](std::mt19937_64& random) {
    use_kernels(random);
    const int64_t batches = draw(random, 1, 3);
    Rope op{};
    op.heads = draw(random, 1, 5);
    op.positions = draw_size(random, 12, 200);
    op.dims = 2 * draw_size(random, 40, 130);
    op.columns = op.dims + (draw(random, 0, 1) == 1 ? draw(random, 1, 40) : 0);
    op.traditional = draw(random, 0, 1) == 1;
    op.base = 10000.0f;
    op.scale = draw(random, 0, 2) == 0 ? 0.25f : 1.0f;
    op.offset = static_cast<int32_t>(draw(random, 0, 1) == 0 ? 0 : draw(random, 0, 131072));
    const auto size = static_cast<size_t>(batches * op.heads * op.positions * op.columns);
    const Guarded<float> x(size, random);
    const Guarded<float> own(size, random);
    const Guarded<float> freqs(static_cast<size_t>(op.dims / 2), random);
    const Guarded<int32_t> offsets(static_cast<size_t>(batches), random);
    fill_numbers(x, random);
    for (float& freq : freqs) freq = static_cast<float>(draw(random, 1, 5000)) / 7.0f;
    for (int32_t& offset : offsets) offset = static_cast<int32_t>(draw(random, 0, 9000));
    if (draw(random, 0, 2) == 0) op.freqs = freqs.data();
    if (draw(random, 0, 1) == 0) op.offsets = offsets.data();
    op.offset_step = draw(random, 0, 1);
    const bool in_place = draw(random, 0, 1) == 1;
    const auto x_strides = draw_strides(op, random);
    const auto y_strides = in_place ? x_strides : draw_strides(op, random);
    std::copy_n(x_strides.begin(), 3, op.x_strides);
    std::copy_n(y_strides.begin(), 3, op.y_strides);
    op.x = x.data();
    op.y = in_place ? x.data() : own.data();
    const std::vector<double> input(x.begin(), x.end());
    rope(op, batches);
    for (int64_t batch = 0; batch < batches; ++batch) {
      for (int64_t head = 0; head < op.heads; ++head) {
        for (int64_t position = 0; position < op.positions; ++position) {
          const auto at = [&](const int64_t* strides) {
            return batch * strides[0] + head * strides[1] + position * strides[2];
          };
          check_row(op, input.data() + at(op.x_strides), op.y + at(op.y_strides), batch, position);
        }
      }
    }
  });
}
