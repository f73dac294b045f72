// Draws the tokens of one completion from their rows of logits.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "lm/candidates.h"
#include "lm/random.h"

namespace mlx_runners::lm {

// How tokens are drawn; packages/lm/src/sampling-options.ts says what each means and checks it.
struct Sampling {
  double temperature = 1;
  size_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  double xtc_probability = 0;
  double xtc_threshold = 0.1;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::map<int32_t, double> logit_bias;
  bool logprobs = false;
  size_t top_logprobs = 0;
};

// A token and the natural logarithm of its probability.
struct Logprob {
  int32_t id;
  double logprob;
};

// `logprob` and `top`, likeliest first, are told where Sampling asks for them.
struct SampledToken {
  int32_t id;
  double logprob = 0;
  std::vector<Logprob> top = {};
};

// In this order, as llama.cpp: biases, penalties, top-k, typical, top-p, min-p, XTC, temperature.
// Each of the middle ones takes what the one before it left for the whole distribution.
class Sampler {
 public:
  Sampler(Sampling sampling, uint64_t seed) : sampling_(std::move(sampling)), random_(seed) {}

  const Sampling& sampling() const { return sampling_; }

  // The next token of the completion, which counts as one of it from then on, from one row of
  // logits [vocabulary]. NaN counts as −Infinity. Throws CodedError "SHAPE" for an empty row,
  // "NATIVE" when all are −Infinity, "USAGE" when biases make them so.
  SampledToken sample(std::span<const float> logits);

  // Adds a token that was not drawn here to the completion, so that penalties see it.
  void add(int32_t id);

 private:
  int32_t choose(std::span<const float> logits);
  int32_t likeliest(std::span<const float> logits);
  // Gives `all` or, where some are left out, `left`.
  const Candidates& truncate(const Candidates& all, Candidates& left);
  int32_t draw(const Candidates& candidates);
  double biased(int32_t id, double logit) const;
  double penalised(int32_t id, double logit) const;
  bool penalises() const;
  // Ids within [0, count) that biases or penalties change, in order.
  void find_changed(size_t count);

  Sampling sampling_;
  Random random_;
  std::map<int32_t, int64_t> counts_;  // how often a token is in the completion, for penalties
  std::vector<int32_t> changed_;
};

}  // namespace mlx_runners::lm
