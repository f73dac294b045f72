// Sampling without JavaScript: packages/lm/test/sampler.test.ts tests what is drawn.
#include "lm/sampler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/errors.h"
#include "harness.h"

using namespace mlx_runners;
using namespace mlx_runners::lm;
using namespace mlx_runners::testing;

namespace {

// Rows with ties, and with what is no number.
std::vector<float> random_row(std::mt19937_64& random) {
  std::vector<float> row(static_cast<size_t>(draw(random, 1, 3000)));
  for (float& logit : row) {
    logit = static_cast<float>(draw(random, -40, 40)) / 4;
    if (draw(random, 0, 50) == 0) logit = std::numeric_limits<float>::quiet_NaN();
    if (draw(random, 0, 50) == 0) logit = -std::numeric_limits<float>::infinity();
  }
  row[static_cast<size_t>(draw(random, 0, static_cast<int64_t>(row.size()) - 1))] = 1;
  return row;
}

double share(std::mt19937_64& random) { return static_cast<double>(draw(random, 0, 100)) / 100; }

}  // namespace

TEST("the likeliest token is that of a plain loop, whatever biases and penalties change") {
  random_cases(300, [](std::mt19937_64& random) {
    const std::vector<float> row = random_row(random);
    const auto last = static_cast<int64_t>(row.size()) - 1;
    Sampling sampling;
    sampling.temperature = 0;
    sampling.presence_penalty = draw(random, 0, 2);
    std::vector<double> changed(row.begin(), row.end());
    for (int64_t i = draw(random, 0, 20); i > 0; --i) {
      sampling.logit_bias[static_cast<int32_t>(draw(random, 0, last + 5))] =
          static_cast<double>(draw(random, -10, 10));
    }
    for (const auto& [id, bias] : sampling.logit_bias) {
      if (id <= last) changed[static_cast<size_t>(id)] += bias;
    }
    Sampler sampler(sampling, 1);
    std::vector<bool> seen(row.size());
    for (int64_t i = draw(random, 0, 20); i > 0; --i) {
      const int64_t id = draw(random, 0, last);
      sampler.add(static_cast<int32_t>(id));
      seen[static_cast<size_t>(id)] = true;
    }
    size_t expected = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < row.size(); ++i) {
      const double logit = changed[i] - (seen[i] ? sampling.presence_penalty : 0);
      if (logit > most) {
        most = logit;
        expected = i;
      }
    }
    EXPECT_EQUAL(sampler.sample(row).id, static_cast<int32_t>(expected));
  });
}

TEST("any settings draw a token that is possible") {
  random_cases(300, [](std::mt19937_64& random) {
    const std::vector<float> row = random_row(random);
    Sampling sampling;
    sampling.temperature = share(random) * 3;
    sampling.top_k = static_cast<size_t>(draw(random, 0, 100));
    sampling.top_p = share(random);
    sampling.min_p = share(random);
    sampling.typical_p = share(random);
    sampling.xtc_probability = share(random);
    sampling.xtc_threshold = share(random) / 2;
    // As extreme as the checks in JavaScript let them be.
    sampling.repetition_penalty = draw(random, 0, 1) == 1 ? 1e308 : 1e-308;
    sampling.logprobs = true;
    sampling.top_logprobs = 5;
    Sampler sampler(sampling, static_cast<uint64_t>(draw(random, 0, 1000)));
    for (int i = 0; i < 5; ++i) {
      const SampledToken token = sampler.sample(row);
      EXPECT(token.id >= 0 && static_cast<size_t>(token.id) < row.size());
      EXPECT(row[static_cast<size_t>(token.id)] > -std::numeric_limits<float>::infinity());
      EXPECT(token.logprob <= 1e-9 && std::isfinite(token.logprob));
      EXPECT_EQUAL(token.top.size(), std::min<size_t>(5, row.size()));
    }
  });
}

TEST("random numbers are those of xoshiro128** seeded by splitmix64") {
  // splitmix64's first two numbers for the seed 0 are known: e220a8397b1dcdaf, 6e789e6aa1b965f4.
  uint32_t state[4] = {0x7b1dcdaf, 0xe220a839, 0xa1b965f4, 0x6e789e6a};
  const auto next = [&] {
    const uint32_t result = std::rotl(state[1] * 5, 7) * 9;
    const uint32_t shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = std::rotl(state[3], 11);
    return result;
  };
  Random random(0);
  for (int i = 0; i < 100; ++i) {
    const double high = next() >> 5;
    const double low = next() >> 6;
    EXPECT_EQUAL(random.next(), (high * 67108864.0 + low) / 9007199254740992.0);
  }
}
