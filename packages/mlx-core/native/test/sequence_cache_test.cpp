// Caches of sequences of one length: packages/program/test/kv-caches.test.ts tests them in
// programs.
#include "lm/sequence_cache.h"

#include "cached_steps.h"
#include "harness.h"
#include "kernels/cpu/attention.h"
#include "lm/attend.h"

using namespace mlx_runners;
using namespace mlx_runners::lm;
using namespace mlx_runners::testing;

namespace {

SequenceCacheOptions options_of(std::vector<KvLayer> layers, int capacity = 40) {
  SequenceCacheOptions options;
  options.layers = std::move(layers);
  options.capacity = capacity;
  return options;
}

/// Adds tokens up to `end`, `count` at a time, to a layer of this window, and checks what they get.
void extend(SequenceCache& cache, const Sequence& sequence, int end, int count, int window = 0,
            double tolerance = 1e-5) {
  Caller caller;
  while (cache.length() < end) {
    const int begin = cache.length();
    const auto tokens = tokens_of(sequence, begin, std::min(end, begin + count));
    const auto results = caller.extend(cache, tokens, {{0, window}})[0];
    for (size_t i = 0; i < tokens.size(); ++i) {
      expect_attended(results[i], sequence.attended(tokens[i].position, window), tolerance);
    }
  }
}

int slots_of(const SequenceCache& cache) {
  return static_cast<int>(cache.bytes() / (sizeof(float) * kv_heads * (head_size + value_size)));
}

}  // namespace

TEST("a prefill is causal") {
  SequenceCache cache(options_of({layer_of()}));
  extend(cache, Sequence(20, 1), 20, 20);
}

TEST("a decoded token reads all before it") {
  SequenceCache cache(options_of({layer_of()}));
  const Sequence sequence(20, 1);
  extend(cache, sequence, 10, 10);
  extend(cache, sequence, 20, 1);
}

TEST("a step past the capacity is refused") {
  SequenceCache cache(options_of({layer_of()}, 12));
  const Sequence sequence(20, 1);
  extend(cache, sequence, 10, 10);
  EXPECT(cache.can_extend(2));
  EXPECT(!cache.can_extend(3));
  EXPECT(!cache.can_extend(-1));
  Caller caller;
  expect_refused("SHAPE", [&] { caller.extend(cache, tokens_of(sequence, 10, 13)); });
  EXPECT_EQUAL(cache.length(), 10);
  extend(cache, sequence, 12, 2);
}

TEST("keys and values are cast to the storage") {
  const std::pair<KvStorage, double> storages[]{{KvStorage::Float16, 0.005},
                                                {KvStorage::BFloat16, 0.05},
                                                {KvStorage::Q8, 0.05},
                                                {KvStorage::Q4, 0.8}};
  for (const auto& [storage, tolerance] : storages) {
    auto options = options_of({layer_of()});
    options.storage = storage;
    options.initial_capacity = 16;
    SequenceCache cache(options);
    EXPECT(cache.bytes() < SequenceCache(options_of({layer_of()})).bytes());
    const Sequence sequence(30, 1);
    extend(cache, sequence, 12, 12, 0, tolerance);
    extend(cache, sequence, 30, 1, 0, tolerance);
  }
}

TEST("a run is read from its start on, two in their order") {
  const Sequence sequence(12, 1);
  constexpr int slots = 16;
  const std::vector<std::vector<SlotRun>> cases{{{3, 15}}, {{10, 16}, {0, 6}}, {{1, 7}, {9, 15}}};
  for (const KvStorage storage : {KvStorage::Float32, KvStorage::Float16}) {
    for (const auto& runs : cases) {
      for (const int queries : {1, 3, 12}) {
        KvPool keys(storage, 1, kv_heads, slots, head_size);
        KvPool values(storage, 1, kv_heads, slots, value_size);
        int position = 0;
        for (const auto& [begin, end] : runs) {
          for (int slot = begin; slot < end; ++slot, ++position) {
            for (int head = 0; head < kv_heads; ++head) {
              keys.write(head * slots + slot, sequence.k(position) + head * head_size);
              values.write(head * slots + slot, sequence.v(position) + head * value_size);
            }
          }
        }
        const int first = position - queries;
        std::vector<float> out(size_t{heads} * value_size * queries);
        cpu::Attention op{};
        op.q = sequence.q(first);
        op.out = out.data();
        op.causal = true;
        op.scale = scale;
        op.heads = heads;
        op.kv_heads = kv_heads;
        op.queries = queries;
        op.dim = head_size;
        op.value_dim = value_size;
        op.q_strides[1] = head_size;
        op.q_strides[2] = heads * head_size;
        op.out_strides[1] = value_size;
        op.out_strides[2] = heads * value_size;
        attend(op, keys, values, runs);
        for (int i = 0; i < queries; ++i) {
          const float* row = out.data() + i * heads * value_size;
          expect_attended({row, row + heads * value_size}, sequence.attended(first + i),
                          storage == KvStorage::Float32 ? 1e-5 : 0.005);
        }
      }
    }
  }
}

TEST("a list of some of the method's layers, or of more, is refused") {
  Caller caller;
  const Sequence sequence(4, 1);
  const auto tokens = tokens_of(sequence, 0, 4);
  SequenceCache one(options_of({layer_of()}));
  expect_refused("SHAPE", [&] { caller.extend(one, tokens, {{0}, {1}}); });
  SequenceCache two(options_of({layer_of(), layer_of()}));
  expect_refused("SHAPE", [&] { caller.extend(two, tokens, {{0}}); });
  expect_refused("SHAPE", [&] { caller.extend(two, tokens, {{-1}}); });
  EXPECT_EQUAL(one.length() + two.length(), 0);
  caller.extend(two, tokens, {{1}, {0}});
  EXPECT_EQUAL(two.length(), 4);
  expect_refused("USAGE", [] { SequenceCache none(options_of({})); });
}

TEST("memory grows past what it is at first") {
  auto options = options_of({layer_of()});
  options.initial_capacity = 4;
  SequenceCache cache(options);
  EXPECT_EQUAL(slots_of(cache), 4);
  const Sequence sequence(17, 1);
  extend(cache, sequence, 4, 4);
  EXPECT_EQUAL(slots_of(cache), 4);
  extend(cache, sequence, 5, 1);
  EXPECT_EQUAL(slots_of(cache), 8);
  extend(cache, sequence, 17, 12);
  EXPECT_EQUAL(slots_of(cache), 32);
}

TEST("growth preserves what there is") {
  auto options = options_of({layer_of()});
  options.initial_capacity = 1;
  SequenceCache cache(options);
  extend(cache, Sequence(40, 1), 40, 1);
}

TEST("doubling ends at the capacity") {
  auto options = options_of({layer_of()}, 21);
  options.initial_capacity = 16;
  SequenceCache cache(options);
  extend(cache, Sequence(21, 1), 21, 7);
  EXPECT_EQUAL(slots_of(cache), 21);
  options.initial_capacity = 1000;
  EXPECT_EQUAL(slots_of(SequenceCache(options)), 21);
}

TEST("an initial capacity of zero takes no memory before the first token") {
  auto options = options_of({layer_of()});
  options.initial_capacity = 0;
  SequenceCache cache(options);
  EXPECT_EQUAL(cache.bytes(), size_t{0});
  extend(cache, Sequence(9, 1), 9, 3);
}

TEST("a ring's queries see a band where they come at once") {
  auto options = options_of({layer_of(6)});
  options.max_write = 16;
  SequenceCache cache(options);
  EXPECT_EQUAL(slots_of(cache), 6 + 16 - 1);
  extend(cache, Sequence(40, 1), 40, 16, 6);
}

TEST("a ring forgets what decoding doesn't see") {
  auto options = options_of({layer_of(6)});
  options.max_write = 1;
  SequenceCache cache(options);
  EXPECT_EQUAL(slots_of(cache), 6);
  extend(cache, Sequence(40, 1), 40, 1, 6);
  EXPECT(cache.can_rewind(40));
  EXPECT(!cache.can_rewind(38));
}

TEST("a window wider than the sequence is causal") {
  SequenceCache cache(options_of({layer_of(100)}));
  EXPECT_EQUAL(slots_of(cache), 40);
  extend(cache, Sequence(40, 1), 40, 8, 100);
  EXPECT(cache.can_rewind(1));
}

TEST("a wrapped ring is read in order") {
  const SlotOrder ring = SlotOrder::ring(5, 4, 100);
  EXPECT_EQUAL(ring.slots(), 8);
  EXPECT(ring.write(6, 4) == (std::vector<SlotRun>{{6, 8}, {0, 2}}));
  EXPECT(ring.write(8, 4) == (std::vector<SlotRun>{{0, 4}}));
  EXPECT(ring.read(6, 4, 5) == (std::vector<SlotRun>{{2, 8}, {0, 2}}));
  EXPECT(ring.read(6, 4, 2) == (std::vector<SlotRun>{{5, 8}, {0, 2}}));
  EXPECT(ring.read(2, 4, 5) == (std::vector<SlotRun>{{0, 6}}));
  EXPECT_EQUAL(ring.retained_from(3), 0);
  EXPECT_EQUAL(ring.retained_from(20), 15);
  const SlotOrder flat = SlotOrder::flat(30);
  EXPECT(flat.read(6, 4, 0) == (std::vector<SlotRun>{{0, 10}}));
  EXPECT(flat.read(6, 4, 3) == (std::vector<SlotRun>{{4, 10}}));
  for (const int at_once : {1, 3, 9, 12}) {
    auto options = options_of({layer_of(7)}, 60);
    options.max_write = at_once;
    SequenceCache cache(options);
    extend(cache, Sequence(60, 1), 60, at_once, 7);
  }
}

TEST("options that can't be are refused") {
  const auto refused = [](auto change) {
    auto options = options_of({layer_of(6)});
    change(options);
    expect_refused("USAGE", [&] { SequenceCache cache(options); });
  };
  refused([](auto& options) { options.initial_capacity = -1; });
  refused([](auto& options) { options.capacity = 0; });
  refused([](auto& options) { options.batch = 0; });
  refused([](auto& options) { options.max_write = -1; });
  refused([](auto& options) { options.layers[0].window = -1; });
  refused([](auto& options) { options.layers[0].kv_heads = 0; });
  refused([](auto& options) {
    options.layers[0].value_size = 33;
    options.storage = KvStorage::Q8;
  });
  // More than any machine has, in numbers that wrap around in 64 bits.
  auto vast = options_of({{1 << 30, 1 << 30, 1 << 30, 0}});
  vast.batch = 1 << 30;
  for (const KvStorage storage : {KvStorage::Float32, KvStorage::Q4}) {
    vast.storage = storage;
    expect_refused("MEMORY", [&] { SequenceCache cache(vast); });
  }
}

TEST("plans change nothing, and a commit that is repeated changes nothing more") {
  SequenceCache cache(options_of({layer_of()}));
  const SequenceCache::Plan plan = cache.plan(0, 5);
  cache.plan(0, 7);
  EXPECT_EQUAL(cache.length(), 0);
  cache.commit(plan);
  cache.commit(plan);
  EXPECT_EQUAL(cache.length(), 5);
  cache.commit(cache.plan(5, 3));
  cache.commit(plan);
  EXPECT_EQUAL(cache.length(), 8);
  expect_refused("SHAPE", [&] { cache.plan(5, 3); });
  expect_refused("SHAPE", [&] { cache.plan(8, 33); });
}

TEST("layers that share keys and values get them once") {
  for (const bool composed : {false, true}) {
    auto options = options_of({layer_of(), layer_of(6)});
    options.max_write = 16;
    SequenceCache cache(options);
    if (composed) cache.compose();
    const Sequence sequence(40, 1);
    Caller caller;
    for (const auto& [begin, end] : {std::pair{0, 16}, {16, 17}, {17, 33}, {33, 34}}) {
      const auto tokens = tokens_of(sequence, begin, end);
      const auto results = caller.extend(cache, tokens, {{1, 6}, {0, 0}, {1, 3}, {0, 9}, {1, 6}});
      for (size_t use = 0; const int window : {6, 0, 3, 9, 6}) {
        for (size_t i = 0; i < tokens.size(); ++i) {
          expect_attended(results[use][i], sequence.attended(tokens[i].position, window));
        }
        ++use;
      }
    }
    EXPECT_EQUAL(cache.length(), 34);
  }
}

TEST("a state without tokens empties a cache that was loaded") {
  auto options = options_of({layer_of(6)});
  SequenceCache long_one(options), short_one(options), cache(options);
  const Sequence sequence(40, 1);
  extend(long_one, sequence, 30, 6, 6);
  cache.load(long_one.state());
  EXPECT_EQUAL(cache.length(), 30);
  EXPECT(!cache.can_rewind(20));
  cache.load(short_one.state());
  EXPECT_EQUAL(cache.length(), 0);
  extend(cache, sequence, 8, 6, 6);
  EXPECT(cache.can_rewind(5));
  EXPECT_EQUAL(cache.state().at("0.keys").shape(2), 6);
}
