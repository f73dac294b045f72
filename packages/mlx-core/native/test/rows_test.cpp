// Row-wise kernels on arrays between forbidden pages, against plain loops in double.
#include "kernels/cpu/rows.h"

#include <cmath>
#include <vector>

#include "guarded.h"
#include "harness.h"

using namespace mlx_runners::cpu;
using namespace mlx_runners::testing;

namespace {

struct Rows {
  int64_t rows;
  int64_t columns;
  size_t size() const { return static_cast<size_t>(rows * columns); }
};

Rows draw_rows(std::mt19937_64& random) {
  use_kernels(random);
  return {draw_size(random, 6, 70), draw_size(random, 40, 700)};
}

/// A result's array: the input itself at times, as kernels may work in place.
struct Output {
  Output(const Guarded<float>& input, std::mt19937_64& random)
      : own(input.size(), random), in_place(draw(random, 0, 1) == 1) {}
  float* data(const Guarded<float>& input) const { return in_place ? input.data() : own.data(); }
  Guarded<float> own;
  bool in_place;
};

}  // namespace

TEST("softmax") {
  require_level();
  random_cases(300, [](std::mt19937_64& random) {
    const Rows shape = draw_rows(random);
    const Guarded<float> x(shape.size(), random);
    fill_numbers(x, random, 20.0f);
    const std::vector<double> input(x.begin(), x.end());
    const Output output(x, random);
    float* y = output.data(x);
    softmax_rows(x.data(), y, shape.rows, shape.columns);
    for (int64_t r = 0; r < shape.rows; ++r) {
      const double* row = input.data() + r * shape.columns;
      double sum = 0;
      for (int64_t i = 0; i < shape.columns; ++i) sum += std::exp(row[i]);
      for (int64_t i = 0; i < shape.columns; ++i) {
        expect_near(y[r * shape.columns + i], std::exp(row[i]) / sum, 3e-6, "softmax");
      }
    }
  });
}

TEST("gelu") {
  require_level();
  random_cases(300, [](std::mt19937_64& random) {
    use_kernels(random);
    const Guarded<float> x(static_cast<size_t>(draw_size(random, 70, 50000)), random);
    fill_numbers(x, random, 7.0f);
    const std::vector<double> input(x.begin(), x.end());
    const Output output(x, random);
    float* y = output.data(x);
    gelu(x.data(), y, static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      expect_near(y[i], input[i] / 2 * (1 + std::erf(input[i] / std::sqrt(2.0))), 3e-6, "gelu");
    }
  });
}

TEST("layer_norm") {
  require_level();
  random_cases(300, [](std::mt19937_64& random) {
    const Rows shape = draw_rows(random);
    const Guarded<float> x(shape.size(), random);
    const Guarded<float> weight(static_cast<size_t>(shape.columns), random);
    const Guarded<float> bias(static_cast<size_t>(shape.columns), random);
    for (const auto* array : {&x, &weight, &bias}) fill_numbers(*array, random, 2.0f);
    const bool weighted = draw(random, 0, 1) == 1;
    const bool biased = draw(random, 0, 1) == 1;
    constexpr float kEps = 1e-2f;
    const std::vector<double> input(x.begin(), x.end());
    const Output output(x, random);
    float* y = output.data(x);
    layer_norm_rows(x.data(), weighted ? weight.data() : nullptr, biased ? bias.data() : nullptr,
                    kEps, y, shape.rows, shape.columns);
    for (int64_t r = 0; r < shape.rows; ++r) {
      const double* row = input.data() + r * shape.columns;
      double mean = 0;
      double variance = 0;
      for (int64_t i = 0; i < shape.columns; ++i) mean += row[i] / shape.columns;
      for (int64_t i = 0; i < shape.columns; ++i) {
        variance += (row[i] - mean) * (row[i] - mean) / shape.columns;
      }
      for (int64_t i = 0; i < shape.columns; ++i) {
        const auto at = static_cast<size_t>(i);
        const double normal = (row[i] - mean) / std::sqrt(variance + kEps);
        const double expected =
            normal * (weighted ? weight[at] : 1.0f) + (biased ? bias[at] : 0.0f);
        expect_near(y[r * shape.columns + i], expected, 1e-5, "layer_norm");
      }
    }
  });
}
