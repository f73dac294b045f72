// The evaluator: many threads' evaluations at once, their number, and what becomes of errors.
#include "core/evaluator.h"

#include <atomic>
#include <chrono>

#include "evaluations.h"
#include "harness.h"
#include "mlx/memory.h"
#include "mlx/scheduler.h"
#include "mlx/transforms.h"
#include "threads.h"

using namespace mlx_runners;
using namespace mlx_runners::testing;

namespace {

std::string failure_of(std::future<mx::array> result) {
  try {
    result.get();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

[[noreturn]] void fail_on_purpose() { throw std::runtime_error("on purpose"); }

/// Two evaluations that can only end when both run: what each waits for is the other's start.
struct Meeting {
  std::atomic<int> arrived{0};

  void operator()() {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("nobody came");
      std::this_thread::yield();
    }
  }
};

}  // namespace

TEST("50 threads × 100 evaluations on one set of weights") {
  constexpr int kSize = 512;
  constexpr int kRows = 3;
  const mx::array weights = [&] {
    // weights[i][j] is 1 where j = i + 1: the product moves each column one on.
    Builder builder;
    return builder.build([&] {
      mx::array eye = mx::eye(kSize, kSize, 1, mx::float32, builder.stream);
      mx::eval({eye});
      return eye;
    });
  }();
  mx::clear_cache();
  mx::reset_peak_memory();
  const size_t before = mx::get_active_memory();

  std::atomic<int> wrong{0};
  together(50, [&](int thread) {
    Builder builder;
    for (int i = 0; i < 100; ++i) {
      const auto first = static_cast<float>(thread * 1000 + i);
      auto graph = builder.build([&] {
        const auto x = mx::arange(first, first + kRows * kSize, mx::float32, builder.stream);
        const auto product =
            mx::matmul(mx::reshape(x, {kRows, kSize}, builder.stream), weights, builder.stream);
        return mx::multiply(product, mx::array(2.0f), builder.stream);
      });
      const mx::array result = builder.submit(std::move(graph)).get();
      const float* values = result.data<float>();
      for (int j = 0; j < kRows * kSize; ++j) {
        const float expected = j % kSize == 0 ? 0.0f : 2 * (first + static_cast<float>(j) - 1);
        if (values[j] != expected) ++wrong;
      }
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);

  const auto load = Evaluator::instance().load();
  EXPECT(load.peak > 1);
  EXPECT(load.peak <= static_cast<size_t>(load.limit));
  EXPECT_EQUAL(load.waiting, size_t{0});
  // A copy of the weights would take as much again.
  EXPECT(before >= weights.nbytes());
  EXPECT(mx::get_peak_memory() - before < weights.nbytes() / 2);
}

TEST("evaluations of two lanes run at once") {
  Builder one;
  Builder other;
  auto meeting = std::make_shared<Meeting>();
  const auto meet = [&](Builder& builder) {
    return builder.submit(builder.build(
        [&] { return acting(mx::array({1.0f}), builder.stream, [meeting] { (*meeting)(); }); }));
  };
  auto first = meet(one);
  auto second = meet(other);
  first.get();
  second.get();
  EXPECT(Evaluator::instance().load().peak >= 2);
}

TEST("a lane with a long queue does not hold up another lane") {
  Builder busy;
  Builder other;
  std::atomic<bool> other_done{false};
  std::vector<mx::array> graphs;  // built first: building waits for what runs on the lane
  for (int i = 0; i < 20; ++i) {
    graphs.push_back(busy.build([&] {
      return acting(mx::array({1.0f}), busy.stream, [&other_done] {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!other_done && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::yield();
        }
      });
    }));
  }
  std::vector<std::future<mx::array>> queue;
  for (auto& each : graphs) queue.push_back(busy.submit(std::move(each)));
  const auto graph = other.build([&] { return mx::full({2}, 5.0f, mx::float32, other.stream); });
  EXPECT_EQUAL(other.submit(graph).get().data<float>()[1], 5.0f);
  EXPECT(queue.back().wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  other_done = true;
  for (auto& each : queue) each.get();
}

TEST("an error reaches whoever asked, and the lane goes on") {
  Builder builder;
  const auto sum = [&](float n) {
    return builder.build([&] { return mx::add(mx::array(n), mx::array(1.0f), builder.stream); });
  };
  for (int i = 0; i < 50; ++i) {
    auto fails = builder.submit(builder.build([&] {
      const mx::array x({1.0f, 2.0f});
      // Before the kernels are queued, and in one of them.
      return i % 2 ? acting(x, builder.stream, fail_on_purpose)
                   : acting(x, builder.stream, [] {}, fail_on_purpose);
    }));
    auto succeeds = builder.submit(sum(static_cast<float>(i)));
    EXPECT_EQUAL(failure_of(std::move(fails)), std::string("on purpose"));
    EXPECT_EQUAL(succeeds.get().data<float>()[0], static_cast<float>(i + 1));
  }
}

TEST("an error of one lane is not another's") {
  std::atomic<int> wrong{0};
  together(8, [&](int thread) {
    Builder builder;
    for (int i = 0; i < 40; ++i) {
      const bool failing = thread % 2 == 0;
      auto result = builder.submit(builder.build([&] {
        const mx::array x({1.0f});
        return failing ? acting(
                             x, builder.stream, [] {}, fail_on_purpose)
                       : mx::add(x, x, builder.stream);
      }));
      if (failing ? failure_of(std::move(result)) != "on purpose"
                  : result.get().data<float>()[0] != 2.0f) {
        ++wrong;
      }
    }
  });
  EXPECT_EQUAL(wrong.load(), 0);
}

TEST("tasks of evaluations that failed are not waited for") {
  Builder builder;
  LaneLock lock(builder.lane, builder.stream);
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> failed{false};
    const auto fails = acting(
        mx::array({1.0f}), builder.stream, [] {},
        [&failed] {
          failed = true;
          fail_on_purpose();
        });
    // Handed over when the stream has an error.
    auto next = acting(fails, builder.stream, [&failed] {
      while (!failed) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
    std::string reason;
    try {
      mx::eval({next});
    } catch (const std::exception& error) {
      reason = error.what();
    }
    EXPECT_EQUAL(reason, std::string("on purpose"));
  }
  mx::synchronize(builder.stream);
  EXPECT_EQUAL(mx::scheduler::n_active_tasks(), 0);
}

TEST("draining forgets what is queued and waits for what runs") {
  Builder builder;
  Builder other;
  std::atomic<bool> started{false};
  std::atomic<bool> ended{false};
  auto slow = builder.build([&] {
    return acting(mx::array({1.0f}), builder.stream, [&] {
      started = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ended = true;
    });
  });
  auto next = builder.build([&] { return mx::full({2}, 1.0f, mx::float32, builder.stream); });
  auto running = builder.submit(std::move(slow));
  while (!started) std::this_thread::yield();
  auto queued = builder.submit(std::move(next));
  auto others =
      other.submit(other.build([&] { return mx::full({2}, 3.0f, mx::float32, other.stream); }));
  Evaluator::instance().drain(&builder);
  EXPECT(ended);
  running.get();
  EXPECT_EQUAL(failure_of(std::move(queued)), std::string("std::future_error: Broken promise"));
  EXPECT_EQUAL(others.get().data<float>()[0], 3.0f);
}
