// Caches of many sequences: packages/program/test/kv-caches.test.ts tests them in programs.
#include "lm/cell_cache.h"

#include <algorithm>

#include "cached_steps.h"
#include "harness.h"

using namespace mlx_runners;
using namespace mlx_runners::lm;
using namespace mlx_runners::testing;

namespace {

constexpr int window = 5;

CellCache cache_of(int cells = 40) {
  return CellCache({layer_of(), layer_of(window)}, KvStorage::Float32, cells);
}

/// A call, and what its tokens have to get: `hidden` are positions that were removed.
void step(
    CellCache& cache, const std::vector<Token>& tokens, const std::vector<int>& sequences,
    const std::function<bool(int)>& hidden = [](int) { return false; }) {
  const auto results = Caller().step(cache, tokens, sequences, {{0, 0}, {1, window}});
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto& [sequence, position] = tokens[i];
    expect_attended(results[0][i], sequence->attended(position, 0, hidden));
    expect_attended(results[1][i], sequence->attended(position, window, hidden));
  }
}

/// Adds tokens up to `end` in one call.
void extend(CellCache& cache, int number, const Sequence& sequence, int end) {
  const auto tokens = tokens_of(sequence, cache.length(number), end);
  step(cache, tokens, std::vector<int>(tokens.size(), number));
}

}  // namespace

TEST("one sequence gets what it gets without a cache") {
  CellCache cache = cache_of();
  const Sequence sequence(30, 1);
  const int number = cache.open();
  for (const int end : {12, 13, 14, 20, 30}) extend(cache, number, sequence, end);
  EXPECT_EQUAL(cache.length(number), 30);
  EXPECT_EQUAL(cache.free_cells(), 10);
}

TEST("sequences of a batch get what they get alone") {
  CellCache cache = cache_of();
  const Sequence first(10, 1), second(10, 2);
  const int a = cache.open(), b = cache.open();
  step(cache, {{&first, 0}, {&second, 0}, {&second, 1}, {&first, 1}, {&first, 2}}, {a, b, b, a, a});
  EXPECT_EQUAL(cache.length(a), 3);
  EXPECT_EQUAL(cache.length(b), 2);
}

TEST("decoding goes on in a batch") {
  CellCache cache = cache_of(400);
  const Sequence first(90, 1), second(90, 2), third(90, 3);
  const int a = cache.open(), b = cache.open(), c = cache.open();
  extend(cache, a, first, 5);
  extend(cache, b, second, 9);
  extend(cache, c, third, 1);
  for (int i = 0; i < 70; ++i) {
    step(cache, {{&first, 5 + i}, {&third, 1 + i}, {&second, 9 + i}}, {a, c, b});
  }
}

TEST("a fork shares what there is, and goes its own way") {
  CellCache cache = cache_of();
  const Sequence sequence(20, 1);
  const int a = cache.open();
  extend(cache, a, sequence, 10);
  const int b = cache.fork(a, 10);
  EXPECT_EQUAL(cache.free_cells(), 30);
  step(cache, {{&sequence, 10}, {&sequence, 10}, {&sequence, 11}}, {b, a, b});
  EXPECT_EQUAL(cache.free_cells(), 27);
  EXPECT_EQUAL(cache.length(a), 11);
  EXPECT_EQUAL(cache.length(b), 12);
  extend(cache, a, sequence, 20);
  extend(cache, b, sequence, 20);
}

TEST("what is removed is free once nobody has it") {
  CellCache cache = cache_of();
  const Sequence sequence(20, 1);
  const int a = cache.open();
  extend(cache, a, sequence, 10);
  const int b = cache.fork(a, 10);
  cache.remove(a, 4, 10);
  EXPECT_EQUAL(cache.length(a), 4);
  EXPECT_EQUAL(cache.free_cells(), 30);
  cache.close(b);
  EXPECT_EQUAL(cache.free_cells(), 36);
  extend(cache, a, sequence, 20);
  cache.close(a);
  EXPECT_EQUAL(cache.free_cells(), 40);
}

TEST("tokens lie in the batch, with their heads in rows") {
  CellCache cache = cache_of();
  const int a = cache.open();
  const Sequence sequence(4, 1);
  // A sequence's layout, of tokens along an axis of their own, is not that of a batch.
  const auto tokens = tokens_of(sequence, 0, 4);
  expect_refused("USAGE", [&] { Caller().extend(cache, tokens, {{0, 0}, {1, window}}); });
  expect_refused("SHAPE", [&] { step(cache, tokens, {a, a, a}); });
  EXPECT_EQUAL(cache.length(a), 0);
  step(cache, tokens, {a, a, a, a});
}

TEST("a fork of the first tokens has only those") {
  CellCache cache = cache_of();
  const Sequence sequence(20, 1);
  const int a = cache.open();
  extend(cache, a, sequence, 10);
  const int b = cache.fork(a, 6);
  const int none = cache.fork(a, 0);
  EXPECT_EQUAL(cache.length(b), 6);
  EXPECT_EQUAL(cache.length(none), 0);
  cache.close(a);
  EXPECT_EQUAL(cache.free_cells(), 34);
  extend(cache, b, sequence, 14);
  extend(cache, none, sequence, 3);
}

TEST("the end of what is owned moves back when the last cells are freed") {
  CellTable table(300);
  const int a = table.open(), b = table.open();
  const auto add = [&](int sequence, int count) {
    std::vector<int> positions;
    for (int i = 0; i < count; ++i) positions.push_back(table.length(sequence) + i);
    table.commit(table.plan(std::vector<int>(count, sequence), positions));
  };
  add(a, 10);
  add(b, 5);
  EXPECT_EQUAL(table.end(), CellTable::block + 5);
  table.remove(b, 3, 5);
  EXPECT_EQUAL(table.end(), CellTable::block + 3);
  table.remove(a, 2, 9);
  EXPECT_EQUAL(table.end(), CellTable::block + 3);
  table.close(b);
  EXPECT_EQUAL(table.end(), 10);
  table.close(a);
  EXPECT_EQUAL(table.end(), 0);
  EXPECT_EQUAL(table.free_cells(), 300);
}

TEST("sequences that grow in turns lie in blocks, and in what is left when there are none") {
  CellTable table(3 * CellTable::block + 7);
  const int a = table.open(), b = table.open();
  for (int i = 0; i < CellTable::block + 20; ++i) {
    table.commit(table.plan({a, b}, {i, i}));
    if (i > CellTable::block) continue;  // there is no block left for b then
    EXPECT_EQUAL(table.cells_of(a).back(), i < CellTable::block ? i : 2 * CellTable::block);
  }
  std::vector<int> seen = table.cells_of(a);
  seen.insert(seen.end(), table.cells_of(b).begin(), table.cells_of(b).end());
  std::ranges::sort(seen);
  EXPECT(std::ranges::adjacent_find(seen) == seen.end());
  const int left = table.free_cells();
  EXPECT_EQUAL(left, table.cells() - 2 * (CellTable::block + 20));
  const int c = table.open();
  std::vector<int> positions;
  for (int i = 0; i < left; ++i) positions.push_back(i);
  table.commit(table.plan(std::vector<int>(left, c), positions));
  EXPECT_EQUAL(table.free_cells(), 0);
  expect_refused("SHAPE", [&] { table.plan({c}, {left}); });
}

TEST("positions in the middle are removed, the others keep theirs") {
  CellCache cache = cache_of();
  const Sequence sequence(20, 1);
  const int a = cache.open();
  extend(cache, a, sequence, 10);
  cache.remove(a, 3, 8);
  EXPECT_EQUAL(cache.length(a), 10);
  EXPECT_EQUAL(cache.free_cells(), 35);
  const auto hidden = [](int position) { return position >= 3 && position < 8; };
  step(cache, tokens_of(sequence, 10, 12), {a, a}, hidden);
  step(cache, tokens_of(sequence, 12, 13), {a}, hidden);
  const int b = cache.fork(a, 9);
  EXPECT_EQUAL(cache.length(b), 9);
  step(cache, tokens_of(sequence, 9, 10), {b}, hidden);
  cache.remove(a, 0, 3);
  step(cache, tokens_of(sequence, 13, 20), std::vector<int>(7, a),
       [](int position) { return position < 8; });
}

TEST("sequences and ranges that aren't there are refused") {
  CellCache cache = cache_of();
  const Sequence sequence(50, 1);
  const int a = cache.open();
  extend(cache, a, sequence, 10);
  for (const int unknown : {-1, 1, 62, 63, 64, 1 << 30}) {
    expect_refused("USAGE", [&] { cache.length(unknown); });
    expect_refused("USAGE", [&] { cache.close(unknown); });
    expect_refused("USAGE", [&] { cache.fork(unknown, 0); });
    expect_refused("USAGE", [&] { cache.remove(unknown, 0, 1); });
    expect_refused("USAGE", [&] { step(cache, tokens_of(sequence, 0, 1), {unknown}); });
  }
  expect_refused("SHAPE", [&] { cache.fork(a, 11); });
  expect_refused("SHAPE", [&] { cache.fork(a, -1); });
  expect_refused("SHAPE", [&] { cache.remove(a, -1, 2); });
  expect_refused("SHAPE", [&] { cache.remove(a, 3, 2); });
  expect_refused("SHAPE", [&] { step(cache, tokens_of(sequence, 9, 10), {a}); });
  expect_refused("SHAPE", [&] { step(cache, tokens_of(sequence, 11, 12), {a}); });
  expect_refused("SHAPE", [&] { step(cache, tokens_of(sequence, 10, 41), std::vector(31, a)); });
  EXPECT_EQUAL(cache.length(a), 10);
  EXPECT_EQUAL(cache.free_cells(), 30);
  cache.remove(a, 20, 30);
  EXPECT_EQUAL(cache.length(a), 10);
  for (int i = 1; i < CellTable::max_sequences; ++i) EXPECT_EQUAL(cache.open(), i);
  expect_refused("USAGE", [&] { cache.open(); });
  expect_refused("USAGE", [&] { cache.fork(a, 3); });
  cache.close(40);
  EXPECT_EQUAL(cache.fork(a, 3), 40);
}

TEST("a plan changes nothing, and gives the same again") {
  CellTable table(200);
  const int a = table.open(), b = table.open();
  const auto cells = [](const std::vector<CellTable::Token>& plan) {
    std::vector<int> numbers;
    for (const auto& token : plan) numbers.push_back(token.cell);
    return numbers;
  };
  const auto plan = table.plan({a, b, a}, {0, 0, 1});
  EXPECT(cells(plan) == cells(table.plan({a, b, a}, {0, 0, 1})));
  EXPECT(cells(plan) == (std::vector<int>{0, CellTable::block, 1}));
  EXPECT_EQUAL(table.free_cells(), 200);
  EXPECT_EQUAL(table.length(a), 0);
  table.commit(plan);
  EXPECT_EQUAL(table.length(a), 2);
}

TEST("layers of a cell cache that share keys and values get them once") {
  for (const bool composed : {false, true}) {
    CellCache cache = cache_of();
    if (composed) cache.compose();
    const Sequence sequence(20, 1);
    const int a = cache.open();
    for (const int end : {6, 7, 15}) {
      const auto tokens = tokens_of(sequence, cache.length(a), end);
      const auto results = Caller().step(cache, tokens, std::vector<int>(tokens.size(), a),
                                         {{0, 0}, {1, window}, {0, 3}, {1, window}});
      for (size_t use = 0; const int seen : {0, window, 3, window}) {
        for (size_t i = 0; i < tokens.size(); ++i) {
          expect_attended(results[use][i], sequence.attended(tokens[i].position, seen));
        }
        ++use;
      }
    }
    EXPECT_EQUAL(cache.free_cells(), 25);
  }
}
