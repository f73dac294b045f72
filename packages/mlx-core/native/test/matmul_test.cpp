// The matrix product on arrays between forbidden pages, against a plain loop in double.
#include "kernels/cpu/matmul.h"

#include <cmath>

#include "guarded.h"
#include "harness.h"

using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

/// What left's row r holds at column k, by the definition of LeftRows.
double left_at(const LeftRows& left, int64_t r, int64_t k) {
  const int64_t at = r % left.rows * left.row_step + left.row_offset + k;
  return at >= 0 && at < left.limit ? left.base[r / left.rows * left.batch_step + at] : 0.0;
}

void check_product(LeftRows left, int64_t rows, std::mt19937_64& random) {
  const int64_t columns = draw_size(random, 70, 300);
  const Guarded<float> w(static_cast<size_t>(columns * left.depth), random);
  const Guarded<float> bias(static_cast<size_t>(columns), random);
  const Guarded<float> out(static_cast<size_t>(rows * columns), random);
  fill_numbers(w, random);
  fill_numbers(bias, random);
  const bool biased = draw(random, 0, 1) == 1;
  matmul_transposed(left, rows, w.data(), columns, biased ? bias.data() : nullptr, out.data());
  // Some elements of a large product, among them the corners.
  const int64_t samples = std::min<int64_t>(rows * columns, 200);
  for (int64_t i = 0; i <= samples; ++i) {
    const int64_t element = i == 0         ? 0
                            : i == samples ? rows * columns - 1
                                           : draw(random, 0, rows * columns - 1);
    const int64_t r = element / columns;
    const int64_t n = element % columns;
    double expected = biased ? bias[static_cast<size_t>(n)] : 0.0f;
    for (int64_t k = 0; k < left.depth; ++k) {
      expected += left_at(left, r, k) * w[static_cast<size_t>(n * left.depth + k)];
    }
    expect_near(out[static_cast<size_t>(element)], expected, 1e-6 * (8 + std::sqrt(left.depth)),
                "the product");
  }
}

}  // namespace

TEST("products of plain matrices") {
  require_level();
  random_cases(200, [](std::mt19937_64& random) {
    use_kernels(random);
    const int64_t rows = draw_size(random, 40, 200);
    const int64_t depth = draw_size(random, 70, 900);
    const Guarded<float> x(static_cast<size_t>(rows * depth), random);
    fill_numbers(x, random);
    check_product({.base = x.data(),
                   .batch_step = 0,
                   .rows = rows,
                   .row_step = depth,
                   .row_offset = 0,
                   .limit = rows * depth,
                   .depth = depth},
                  rows, random);
  });
}

TEST("convolutions: overlapping rows, padding outside the input") {
  require_level();
  random_cases(200, [](std::mt19937_64& random) {
    use_kernels(random);
    const int64_t batches = draw(random, 1, 3);
    const int64_t channels = draw_size(random, 20, 90);
    const int64_t length = draw_size(random, 20, 60);
    const int64_t padding = draw(random, 0, 4);
    const int64_t kernel = draw(random, 1, std::min<int64_t>(length + 2 * padding, 5));
    const int64_t stride = draw(random, 1, 3);
    const int64_t positions = (length + 2 * padding - kernel) / stride + 1;
    const Guarded<float> x(static_cast<size_t>(batches * length * channels), random);
    fill_numbers(x, random);
    check_product({.base = x.data(),
                   .batch_step = length * channels,
                   .rows = positions,
                   .row_step = stride * channels,
                   .row_offset = -padding * channels,
                   .limit = length * channels,
                   .depth = kernel * channels},
                  batches * positions, random);
  });
}
