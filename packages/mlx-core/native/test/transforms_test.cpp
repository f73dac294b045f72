// Derivatives and vmap of the fused primitives, against differences of their own results.
#include "mlx/transforms.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "evaluations.h"
#include "harness.h"
#include "kernels/cpu/primitives.h"
#include "mlx/ops.h"
#include "mlx/random.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

using Arrays = std::vector<mx::array>;
using Function = std::function<Arrays(const Arrays&)>;

class Numbers {
 public:
  explicit Numbers(mx::Stream stream) : stream_(stream) {}
  mx::array operator()(mx::Shape shape) {
    mx::array numbers =
        mx::random::uniform(-1.0, 1.0, shape, mx::float32, mx::random::key(++seed_), stream_);
    mx::eval(numbers);
    return numbers;
  }
  Arrays like(const Arrays& arrays) {
    Arrays all;
    for (const auto& array : arrays) all.push_back((*this)(array.shape()));
    return all;
  }

 private:
  mx::Stream stream_;
  uint64_t seed_ = 0;
};

/// The sum of the products of all elements.
double inner(const Arrays& a, const Arrays& b, mx::Stream stream) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += mx::sum(mx::multiply(a[i], b[i], stream), stream).item<float>();
  }
  return sum;
}

void expect_close(double actual, double expected, double tolerance, const std::string& what) {
  if (std::abs(actual - expected) <= tolerance * (1 + std::abs(expected))) return;
  throw Failure(what + " is " + std::to_string(actual) + ", not " + std::to_string(expected));
}

Arrays moved(const Arrays& from, const Arrays& direction, float step, mx::Stream stream) {
  Arrays all;
  for (size_t i = 0; i < from.size(); ++i) {
    all.push_back(mx::add(from[i], mx::multiply(direction[i], mx::array(step), stream), stream));
  }
  return all;
}

std::vector<int> all_of(const Arrays& arrays) {
  std::vector<int> numbers;
  for (size_t i = 0; i < arrays.size(); ++i) numbers.push_back(static_cast<int>(i));
  return numbers;
}

/// `f` of float32 arrays makes one fused primitive.
void check(const std::string& what, const Function& f, const Arrays& inputs, mx::Stream stream) {
  Numbers numbers(stream);
  const Arrays outputs = f(inputs);
  mx::Primitive& primitive = outputs[0].primitive();
  EXPECT(std::string(primitive.name()).starts_with("Fused"));
  const Arrays direction = numbers.like(inputs);
  const Arrays weights = numbers.like(outputs);

  constexpr float kStep = 1e-2f;
  const double slope = (inner(f(moved(inputs, direction, kStep, stream)), weights, stream) -
                        inner(f(moved(inputs, direction, -kStep, stream)), weights, stream)) /
                       (2 * kStep);
  const Arrays back = primitive.vjp(inputs, weights, all_of(inputs), outputs);
  expect_close(inner(back, direction, stream), slope, 3e-3, what + ": vjp");
  const Arrays forward = primitive.jvp(inputs, direction, all_of(inputs));
  expect_close(inner(forward, weights, stream), slope, 3e-3, what + ": jvp");

  // Inside a transform MLX's own ops stand in.
  const Arrays traced = mx::vjp(f, inputs, weights).second;
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT(mx::allclose(traced[i], back[i], 1e-5, 1e-6, false, stream).item<bool>());
  }

  // Two calls as one, along a new axis of every input.
  Arrays stacked;
  for (size_t i = 0; i < inputs.size(); ++i) {
    stacked.push_back(mx::stack({inputs[i], direction[i]}, 0, stream));
  }
  const auto [both, axes] = primitive.vmap(stacked, std::vector<int>(inputs.size(), 0));
  const Arrays second = f(direction);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const mx::array expected = mx::stack({outputs[i], second[i]}, axes[i], stream);
    EXPECT(mx::allclose(both[i], expected, 1e-4, 1e-5, false, stream).item<bool>());
  }
}

void check_all(const std::string& what, const Function& f, const std::vector<mx::Shape>& shapes) {
  Builder builder;
  builder.build([&] {
    Numbers numbers(builder.stream);
    Arrays inputs;
    for (const auto& shape : shapes) inputs.push_back(numbers(shape));
    check(what, f, inputs, builder.stream);
    return mx::array(0);
  });
}

}  // namespace

TEST("norms") {
  check_all("rms_norm", [](const Arrays& x) { return Arrays{cpu::rms_norm(x[0], x[1], 1e-3f)}; },
            {{3, 10}, {10}});
  check_all("add_rms_norm",
            [](const Arrays& x) { return cpu::add_rms_norm(x[0], x[1], x[2], 1e-3f); },
            {{3, 10}, {3, 10}, {10}});
  check_all("layer_norm",
            [](const Arrays& x) { return Arrays{cpu::layer_norm(x[0], x[1], x[2], 1e-3f)}; },
            {{3, 10}, {10}, {10}});
}

TEST("gated linear units") {
  check_all("swiglu", [](const Arrays& x) { return Arrays{cpu::swiglu(x[0], x[1])}; },
            {{3, 10}, {3, 10}});
  for (const bool approximate : {true, false}) {
    check_all("geglu", [&](const Arrays& x) { return Arrays{cpu::geglu(x[0], x[1], approximate)}; },
              {{3, 10}, {3, 10}});
  }
}

TEST("rope") {
  for (const bool traditional : {false, true}) {
    check_all("rope",
              [&](const Arrays& x) {
                return Arrays{cpu::rope(x[0], 6, traditional, 100.0f, 1.0f, 5, std::nullopt)};
              },
              {{2, 3, 4, 8}});
  }
}

TEST("attention") {
  const std::vector<mx::Shape> shapes{{1, 4, 5, 8}, {1, 2, 9, 8}, {1, 2, 9, 6}, {4}};
  for (const int window : {0, 3}) {
    for (const float softcap : {0.0f, 2.0f}) {
      check_all(
          "attention",
          [&](const Arrays& x) {
            return Arrays{cpu::attention(x[0], x[1], x[2], 0.7f, "causal", std::nullopt, x[3],
                                         window, softcap)};
          },
          shapes);
    }
  }
}
