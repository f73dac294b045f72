// Row-wise kernels on arrays between forbidden pages, against plain loops in double.
#include "kernels/cpu/rows.h"

#include <algorithm>
#include <array>
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

TEST("softmax of rows that are cut into pieces") {
  require_level();
  random_cases(8, [](std::mt19937_64& random) {
    use_kernels(random);
    const int64_t columns = draw(random, 65536, 150000);
    const Guarded<float> x(static_cast<size_t>(2 * columns), random);
    fill_numbers(x, random, 20.0f);
    // A piece of nothing, and one that all others are nothing against.
    std::fill_n(x.data(), 20000, -INFINITY);
    x[static_cast<size_t>(draw(random, 0, columns - 1))] = 300.0f;
    const std::vector<double> input(x.begin(), x.end());
    const Output output(x, random);
    float* y = output.data(x);
    softmax_rows(x.data(), y, 2, columns);
    for (int64_t r = 0; r < 2; ++r) {
      const double* row = input.data() + r * columns;
      const double most = *std::max_element(row, row + columns);
      double sum = 0;
      for (int64_t i = 0; i < columns; ++i) sum += std::exp(row[i] - most);
      for (int64_t i = 0; i < columns; ++i) {
        const double expected = std::exp(row[i] - most) / sum;
        const double error = y[r * columns + i] - expected;
        // Relative, down to where results are no normal numbers.
        expect_near(error / (expected + 1e-33), 0, 1e-5, "softmax's relative error");
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

TEST("rms_norm, alone and after an addition") {
  require_level();
  random_cases(300, [](std::mt19937_64& random) {
    const Rows shape = draw_rows(random);
    const Guarded<float> x(shape.size(), random);
    const Guarded<float> residual(shape.size(), random);
    const Guarded<float> weight(static_cast<size_t>(shape.columns), random);
    for (const auto* array : {&x, &residual, &weight}) fill_numbers(*array, random, 2.0f);
    const bool weighted = draw(random, 0, 1) == 1;
    const bool added = draw(random, 0, 1) == 1;
    const float* w = weighted ? weight.data() : nullptr;
    constexpr float kEps = 1e-3f;
    std::vector<double> input(x.begin(), x.end());
    const Output output(x, random);
    const Output sums(residual, random);
    float* y = output.data(x);
    if (added) {
      for (size_t i = 0; i < input.size(); ++i) input[i] = x[i] + residual[i];
      float* sum = sums.data(residual);
      add_rms_norm_rows(x.data(), residual.data(), w, kEps, sum, y, shape.rows, shape.columns);
      for (size_t i = 0; i < input.size(); ++i) expect_near(sum[i], input[i], 0, "the sum");
    } else {
      rms_norm_rows(x.data(), w, kEps, y, shape.rows, shape.columns);
    }
    for (int64_t r = 0; r < shape.rows; ++r) {
      const double* row = input.data() + r * shape.columns;
      double mean = 0;
      for (int64_t i = 0; i < shape.columns; ++i) mean += row[i] * row[i] / shape.columns;
      for (int64_t i = 0; i < shape.columns; ++i) {
        const double factor = weighted ? weight[static_cast<size_t>(i)] : 1.0;
        expect_near(y[r * shape.columns + i], row[i] / std::sqrt(mean + kEps) * factor, 1e-6,
                    "rms_norm");
      }
    }
  });
}

TEST("gated linear units") {
  require_level();
  const auto of = [](GluKind kind, double x) {
    if (kind == GluKind::kSwiglu) return x / (1 + std::exp(-x));
    if (kind == GluKind::kGegluErf) return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  };
  random_cases(300, [&](std::mt19937_64& random) {
    const Rows shape = draw_rows(random);
    const auto kind = std::array{GluKind::kSwiglu, GluKind::kGegluTanh,
                                 GluKind::kGegluErf}[static_cast<size_t>(draw(random, 0, 2))];
    // Apart, or as the halves of one array's rows.
    const bool halves = draw(random, 0, 1) == 1;
    const int64_t step = halves ? 2 * shape.columns : shape.columns;
    const Guarded<float> x(2 * shape.size(), random);
    const float range = draw(random, 0, 3) == 0 ? 200.0f : 6.0f;
    fill_numbers(x, random, range);
    const float* gate = x.data();
    const float* up = x.data() + (halves ? shape.columns : static_cast<int64_t>(shape.size()));
    const std::vector<double> input(x.begin(), x.end());
    const Guarded<float> own(shape.size(), random);
    float* y = !halves && draw(random, 0, 1) == 1 ? x.data() : own.data();
    glu(kind, gate, step, up, step, y, shape.rows, shape.columns);
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t i = 0; i < shape.columns; ++i) {
        const int64_t at = r * step + i;
        const double other = input[static_cast<size_t>(at + (up - gate))];
        const double error =
            y[r * shape.columns + i] - of(kind, input[static_cast<size_t>(at)]) * other;
        expect_near(error / (1 + std::abs(other)), 0, 3e-6 * range, "glu's error");
      }
    }
  });
}
