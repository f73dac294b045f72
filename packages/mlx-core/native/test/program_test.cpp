// Programs without JavaScript: many threads with sessions of one program, caches, damaged tables.
#include "program/program.h"

#include <atomic>
#include <cmath>
#include <random>

#include "core/errors.h"
#include "core/lanes.h"
#include "evaluations.h"
#include "harness.h"
#include "mlx/memory.h"
#include "mlx/transforms.h"
#include "program/session.h"
#include "threads.h"

using namespace mlx_runners;
using namespace mlx_runners::program;
using namespace mlx_runners::testing;

namespace {

double op_number(const std::string& name) {
  for (size_t i = 0; i < op_table().size(); ++i) {
    if (op_table()[i].name == name) return static_cast<double>(i);
  }
  throw Failure("there is no op " + name);
}

constexpr double float32 = 10;

// step(x [T, 4], past): a cache [capacity, 4] is written from `past` on, and the sum of what is
// written up to now is returned, times a constant.
struct CacheProgram {
  std::vector<double> words;
  std::vector<Value> values;
  std::vector<double> lists;
  std::vector<std::string> texts{"cache", "step", "x", "T", "past", "model.ts:1", "past + T"};

  explicit CacheProgram(double capacity) {
    // Sizes: 0 T, 1 past, 2 past + T, 3 the constant 4, 4 the capacity.
    const double sizes[][3] = {{1, 0, 0}, {1, 1, 0}, {2, 1, 0}, {0, 4, 0}, {0, capacity, 0}};
    // Slots: 0 x, 1 cache, 2 factor, 3 updated cache, 4 live part, 5 sum, 6 result.
    lists = {0, 0, 0, 4, 0, 0, 0, 4, 0};
    values = {
        {Tag::Array, 0, 1}, {Tag::Array, 0, 0}, {Tag::Ints, 2, 0}, {Tag::Ints, 2, 2},  // update
        {Tag::Array, 0, 3}, {Tag::Ints, 2, 4},  {Tag::Ints, 2, 6},                     // slice
        {Tag::Array, 0, 4}, {Tag::Ints, 1, 8},                                         // sum
        {Tag::Array, 0, 5}, {Tag::Array, 0, 2},                                        // multiply
    };
    words = {1, 0, float32, 2, capacity, 4};    // states
    put({1, 1, 1, 2, 2, 3, 4, 1});              // methods: step, its input, dimensions, traces
    put({1, capacity, 1, 0, capacity - 1, 1});  // ranges of T and past
    put({5});
    for (const auto& size : sizes) words.insert(words.end(), size, size + 3);
    put({1, 2, capacity, 6});             // limit: past + T
    put({7});                             // slots
    put({1, 0, float32, 2, 0, 3});        // input x [T, 4]
    put({1, 0, 1, 3});                    // state
    put({1, 0, 2});                       // constant
    put({1, 6, float32, 1, 3});           // output [4]
    put({3, 1, 0, 1, 1, 2, 2, 1, 6, 2});  // patches: start, end of the update, end of the slice
    put({4});
    put({op_number("sliceUpdate"), 0, 4, 5, 1, 3, float32, 2, 4, 3});
    put({op_number("slice"), 4, 3, 5, 1, 4, float32, 2, 2, 3});
    put({op_number("sum"), 7, 2, 5, 1, 5, float32, 1, 3});
    put({op_number("multiply"), 9, 2, 5, 1, 6, float32, 1, 3});
  }

  Tables tables(mx::array factor) const { return {words, values, lists, texts, {factor}}; }

 private:
  void put(std::initializer_list<double> more) { words.insert(words.end(), more); }
};

mx::array computed(Builder& builder, mx::Shape shape, float value) {
  LaneLock lock(builder.lane, builder.stream);
  mx::array array = mx::full(std::move(shape), value, mx::float32, builder.stream);
  mx::eval({array});
  return array;
}

std::shared_ptr<const Program> made(Builder& builder, const CacheProgram& program) {
  return make_program(program.tables(computed(builder, {1}, 2)), builder.lane, builder.stream);
}

float step(Session& session, const mx::array& x, double past) {
  Call call;
  call.inputs = {x};
  call.dimensions = {NAN, past};
  LaneLock lock(session.lane(), session.stream());
  return session.run(call).front().data<float>()[0];
}

size_t peak_of_step(int capacity) {
  Builder builder;
  Session session(made(builder, CacheProgram(capacity)), builder.lane, builder.stream);
  const mx::array x = computed(builder, {1, 4}, 1);
  step(session, x, 0);
  const size_t before = mx::get_active_memory();
  mx::reset_peak_memory();
  for (int past = 1; past < 9; ++past) {
    EXPECT_EQUAL(step(session, x, past), 2.0f * static_cast<float>(past + 1));
  }
  return mx::get_peak_memory() - before;
}

}  // namespace

TEST("a program runs from its tables") {
  Builder builder;
  Session session(made(builder, CacheProgram(16)), builder.lane, builder.stream);
  EXPECT_EQUAL(step(session, computed(builder, {3, 4}, 1), 0), 6.0f);
  EXPECT_EQUAL(step(session, computed(builder, {1, 4}, 5), 3), 16.0f);
  EXPECT_EQUAL(step(session, computed(builder, {1, 4}, 7), 1),
               16.0f);  // 1 + 7 of what was 1 + 1 + 1
}

TEST("one program, 50 threads × 100 predictions, some at once") {
  Builder builder;
  const auto program = made(builder, CacheProgram(64));
  std::atomic<int> right{0}, inside{0}, most{0};
  together(50, [&](int thread) {
    Builder own;
    Session session(program, own.lane, own.stream);
    const auto value = static_cast<float>(thread);
    const mx::array x = computed(own, {2, 4}, value);
    for (int i = 0; i < 100; ++i) {
      const int now = ++inside;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      const int past = 2 * (i % 32);
      const float result = step(session, x, past);
      if (result == 2 * value * static_cast<float>(past + 2)) ++right;
      --inside;
    }
  });
  EXPECT_EQUAL(right.load(), 5000);
  EXPECT(most.load() > 1);
}

TEST("a step takes as much memory for a small cache as for a large one") {
  const size_t small = peak_of_step(16);
  const size_t large = peak_of_step(1 << 20);
  EXPECT_EQUAL(large, small);
}

TEST("a cache that another handle holds is written in place all the same") {
  Builder builder;
  Session session(made(builder, CacheProgram(1 << 20)), builder.lane, builder.stream);
  const mx::array x = computed(builder, {1, 4}, 1);
  step(session, x, 0);
  const size_t before = mx::get_active_memory();
  mx::reset_peak_memory();
  Call call;
  call.inputs = {x};
  call.dimensions = {NAN, 1};
  LaneLock lock(session.lane(), session.stream());
  Profile profile;
  call.profile = &profile;  // every instruction's results are held while it is computed
  session.run(call);
  EXPECT(mx::get_peak_memory() - before < (1 << 20));
  EXPECT_EQUAL(profile.ops.size(), size_t{4});
}

TEST("a call that is cancelled leaves the session as it was") {
  Builder builder;
  Session session(made(builder, CacheProgram(16)), builder.lane, builder.stream);
  const mx::array x = computed(builder, {1, 4}, 3);
  step(session, x, 0);
  const std::atomic<bool> cancelled{true};
  Call call;
  call.inputs = {x};
  call.dimensions = {NAN, 1};
  call.cancelled = &cancelled;
  std::string code;
  {
    LaneLock lock(session.lane(), session.stream());
    try {
      session.run(call);
    } catch (const CodedError& error) {
      code = error.code();
    }
  }
  EXPECT_EQUAL(code, std::string("ABORTED"));
  EXPECT_EQUAL(step(session, x, 1), 12.0f);
}

TEST("damaged tables are refused or run") {
  Builder builder;
  const CacheProgram whole(16);
  const mx::array factor = computed(builder, {1}, 2);
  int refused = 0, read = 0;
  random_cases(3000, [&](std::mt19937_64& random) {
    CacheProgram damaged = whole;
    const auto number = [&]() -> double {
      constexpr double extremes[] = {-1,           0,      0.5, 1, 2, 15, 255, 1e18, 2147483647.0,
                                     4294967296.0, -1e300, NAN};
      return extremes[draw(random, 0, std::size(extremes) - 1)];
    };
    for (int64_t left = draw(random, 1, 3); left > 0; --left) {
      switch (draw(random, 0, 4)) {
        case 0:
          damaged.words[draw(random, 0, damaged.words.size() - 1)] = number();
          break;
        case 1:
          damaged.values[draw(random, 0, damaged.values.size() - 1)].number = number();
          break;
        case 2:
          damaged.values[draw(random, 0, damaged.values.size() - 1)].tag =
              static_cast<Tag>(draw(random, 0, 9));
          break;
        case 3:
          damaged.values[draw(random, 0, damaged.values.size() - 1)].size =
              static_cast<uint32_t>(draw(random, 0, 12));
          break;
        default:
          damaged.lists[draw(random, 0, damaged.lists.size() - 1)] = number();
      }
    }
    try {
      const auto program = make_program(damaged.tables(factor), builder.lane, builder.stream);
      Session session(program, builder.lane, builder.stream);
      step(session, computed(builder, {2, 4}, 1), 3);
      ++read;
    } catch (const CodedError&) {
      ++refused;
    }
  });
  if (options().cases == 0) EXPECT(refused > 0 && read > 0);
}
