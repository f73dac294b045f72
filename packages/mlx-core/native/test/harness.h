// A test program: TEST bodies that check with EXPECT, and a main() that lists and runs them.
//
//   program --list             names, one per line
//   program [NAME]…            runs these tests, all when none is named, in this one process
//     --seed S                 for tests that draw random cases: where to start
//     --scale X                X times as many of them as a test has by itself
//     --cases N                N of them
//
// Exit code 0: all passed; 77: all were skipped; 1: some failed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>

namespace mlx_runners::testing {

class Failure : public std::runtime_error {
  using runtime_error::runtime_error;
};
class Skip : public std::runtime_error {
  using runtime_error::runtime_error;
};

struct Options {
  double scale = 1;
  int64_t cases = 0;  // 0: as many as the test has by itself, times scale
  uint64_t seed = 1;
};
const Options& options();

/// Registers a test when the program starts.
struct Registration {
  Registration(const char* name, void (*body)());
};

/// How many random cases to draw in a test that has so many by itself.
inline int64_t case_count(int64_t by_default) {
  if (options().cases > 0) return options().cases;
  return std::max<int64_t>(1, std::llround(options().scale * static_cast<double>(by_default)));
}

/// Random cases, each from a seed of its own: a failure names the seed that brings back its case
/// with `--cases 1 --seed S`.
template <class Body>
void random_cases(int64_t by_default, Body&& body) {
  const int64_t count = case_count(by_default);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t seed = options().seed + static_cast<uint64_t>(i);
    std::mt19937_64 random(seed);
    try {
      body(random);
    } catch (const std::exception& error) {
      throw Failure("--seed " + std::to_string(seed) + ": " + error.what());
    }
  }
}

/// A whole number from [low, high].
inline int64_t draw(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

template <class A, class B>
void expect_equal(const A& actual, const B& expected, const char* what, const char* file,
                  int line) {
  if (actual == expected) return;
  std::ostringstream message;
  message << file << ':' << line << ": " << what << " is " << actual << ", not " << expected;
  throw Failure(message.str());
}
void expect(bool holds, const char* what, const char* file, int line);

}  // namespace mlx_runners::testing

#define MLX_RUNNERS_JOIN_(a, b) a##b
#define MLX_RUNNERS_JOIN(a, b) MLX_RUNNERS_JOIN_(a, b)

#define MLX_RUNNERS_TEST(name, function)                                                           \
  static void function();                                                                          \
  static const ::mlx_runners::testing::Registration MLX_RUNNERS_JOIN(function, _)(name, function); \
  static void function()
#define TEST(name) MLX_RUNNERS_TEST(name, MLX_RUNNERS_JOIN(test_at_line_, __LINE__))
#define EXPECT(condition) \
  ::mlx_runners::testing::expect((condition), #condition, __FILE__, __LINE__)
#define EXPECT_EQUAL(actual, expected) \
  ::mlx_runners::testing::expect_equal((actual), (expected), #actual, __FILE__, __LINE__)
