// Lanes: each of the ways in which MLX crashes when threads share its streams, done the lanes' way.
#include <atomic>
#include <set>

#include "evaluations.h"
#include "harness.h"
#include "mlx/stream.h"
#include "mlx/transforms.h"
#include "threads.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

/// 4 n² + 1 by way of what is delicate in MLX: outputs of one node that know each other (split) and
/// temporaries of the stream (a product of views).
mx::array small_graph(float n, mx::Stream stream) {
  const mx::array x = mx::full({8, 16}, n, mx::float32, stream);
  const auto parts = mx::split(x, 4, 1, stream);
  const mx::array left = mx::transpose(mx::add(parts[0], parts[1], stream), stream);
  const mx::array right = mx::slice(x, {0, 0}, {8, 16}, {1, 4}, stream);
  const mx::array product = mx::matmul(left, right, stream);  // 8 · 2n · n
  return mx::add(mx::multiply(product, mx::array(0.25f), stream), mx::array(1.0f), stream);
}
float small_result(float n) { return 4 * n * n + 1; }

/// MLX's streams, when none was made but those of the lanes.
int streams_of_lanes() { return lane_count() * (mx::is_available(mx::Device::gpu) ? 2 : 1); }

float evaluate_here(Builder& builder, float n) {
  LaneLock lock(builder.lane, builder.stream);
  mx::array result = small_graph(n, builder.stream);
  mx::eval({result});
  return result.data<float>()[0];
}

}  // namespace

TEST("64 threads ask for the first lane at once and evaluate: the lanes are made once") {
  std::atomic<int> wrong{0};
  together(64, [&](int thread) {
    Builder builder;
    for (int i = 0; i < 20; ++i) {
      const auto n = static_cast<float>((thread * 20 + i) % 1000);
      if (evaluate_here(builder, n) != small_result(n)) ++wrong;
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
  EXPECT_EQUAL(static_cast<int>(mx::get_streams().size()), streams_of_lanes());
}

TEST("environments in turn get every lane, then share them") {
  std::set<const Lane*> seen;
  for (int i = 0; i < 3 * lane_count(); ++i) seen.insert(&assign_lane());
  EXPECT_EQUAL(static_cast<int>(seen.size()), lane_count());
}

TEST("8 threads use one lane, and so one stream, at once") {
  Builder builder;
  std::atomic<int> wrong{0};
  together(8, [&](int thread) {
    for (int i = 0; i < 2000; ++i) {
      const auto n = static_cast<float>(thread * 100 + i % 100);
      if (evaluate_here(builder, n) != small_result(n)) ++wrong;
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
}

TEST("environments come while others evaluate") {
  std::atomic<int> wrong{0};
  together(8, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      Builder fresh;
      const auto n = static_cast<float>((thread * 20 + i) % 1000);
      if (evaluate_here(fresh, n) != small_result(n)) ++wrong;
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
  EXPECT_EQUAL(static_cast<int>(mx::get_streams().size()), streams_of_lanes());
}

TEST("300 short-lived threads leave neither threads nor streams behind") {
  const auto generation = [](int first) {
    together(50, [&](int thread) {
      Builder builder;
      const auto n = static_cast<float>(first + thread);
      EXPECT_EQUAL(evaluate_here(builder, n), small_result(n));
    });
  };
  generation(0);  // every lane's own thread starts with its first evaluation
  const int64_t threads = threads_of_process();
  for (int i = 1; i <= 6; ++i) generation(50 * i);
  EXPECT_EQUAL(threads_of_process(), threads);
  EXPECT_EQUAL(static_cast<int>(mx::get_streams().size()), streams_of_lanes());
}

TEST("evaluations that share nodes which are not computed yet") {
  for (int round = 0; round < 20; ++round) {
    Builder builder;
    auto shared = builder.build([&] { return small_graph(3, builder.stream); });
    std::vector<std::future<mx::array>> results;
    for (int i = 0; i < 20; ++i) {
      results.push_back(builder.submit(builder.build(
          [&] { return mx::add(shared, mx::array(static_cast<float>(i)), builder.stream); })));
    }
    for (int i = 0; i < 20; ++i)
      EXPECT_EQUAL(results[i].get().data<float>()[0], small_result(3) + i);
  }
}

TEST("a graph grows while another thread evaluates part of it") {
  Builder builder;
  auto node = builder.build([&] { return small_graph(1, builder.stream); });
  std::vector<std::future<mx::array>> results;
  for (int i = 1; i <= 6000; ++i) {
    builder.build([&] {
      const auto parts = mx::split(node, 2, 0, builder.stream);
      const auto ones = mx::subtract(parts[0], mx::subtract(parts[1], mx::array(1.0f)));
      return node = mx::concatenate({mx::add(parts[0], ones), mx::add(parts[1], ones)}, 0);
    });
    if (i % 3 == 0) results.push_back(builder.submit(node));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQUAL(results[i].get().data<float>()[0], small_result(1) + 3 * (i + 1));
  }
}

TEST("graphs are dropped while parts of them are evaluated") {
  Builder builder;
  for (int round = 0; round < 3000; ++round) {
    auto base = builder.build([&] { return small_graph(1, builder.stream); });
    auto unused = builder.build([&] { return mx::multiply(base, base, builder.stream); });
    auto result = builder.submit(
        builder.build([&] { return mx::add(base, mx::array(1.0f), builder.stream); }));
    builder.drop(std::move(unused));
    builder.drop(std::move(base));
    EXPECT_EQUAL(result.get().data<float>()[0], small_result(1) + 1);
  }
}
