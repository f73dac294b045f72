#include "lm/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/errors.h"
#include "lm/truncation.h"

namespace mlx_runners::lm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double greatest = std::numeric_limits<double>::max();

// Kept from call to call, and for all samplers of a thread: megabytes where a vocabulary is large.
struct Scratch {
  Candidates all;
  std::vector<double> weights;
};

Scratch& scratch_of_thread() {
  thread_local Scratch scratch;
  return scratch;
}

// In the model's own distribution: a row of logits as it is.
void add_logprobs(std::span<const float> row, size_t count, SampledToken& token) {
  auto& [all, weights] = scratch_of_thread();
  all_tokens(row, all);
  const double offset = largest(all.logits) + std::log(softmax(all.logits, 1, weights));
  token.logprob = all.logits[token.id] - offset;
  for (const int32_t id : best(all.logits, all.ids, count)) {
    token.top.push_back({id, all.logits[id] - offset});
  }
}

}  // namespace

SampledToken Sampler::sample(std::span<const float> logits) {
  SampledToken token{choose(logits)};
  add(token.id);
  if (sampling_.logprobs) add_logprobs(logits, sampling_.top_logprobs, token);
  return token;
}

void Sampler::add(int32_t id) {
  if (penalises()) ++counts_[id];
}

bool Sampler::penalises() const {
  return sampling_.repetition_penalty != 1 || sampling_.presence_penalty != 0 ||
         sampling_.frequency_penalty != 0;
}

double Sampler::biased(int32_t id, double logit) const {
  const auto bias = sampling_.logit_bias.find(id);
  return bias == sampling_.logit_bias.end() ? logit : logit + bias->second;
}

double Sampler::penalised(int32_t id, double logit) const {
  const auto count = counts_.find(id);
  if (count == counts_.end() || logit == -infinity) return logit;
  const double penalty = sampling_.repetition_penalty;
  const double repeated = logit > 0 ? logit / penalty : logit * penalty;
  const double frequency = sampling_.frequency_penalty * static_cast<double>(count->second);
  // A token that can be drawn stays one, however large a penalty is.
  return std::clamp(repeated - sampling_.presence_penalty - frequency, -greatest, greatest);
}

void Sampler::find_changed(size_t count) {
  changed_.clear();
  const auto add = [&](const auto& entry) {
    if (entry.first >= 0 && static_cast<size_t>(entry.first) < count)
      changed_.push_back(entry.first);
  };
  std::ranges::for_each(sampling_.logit_bias, add);
  const size_t middle = changed_.size();
  std::ranges::for_each(counts_, add);
  std::inplace_merge(changed_.begin(), changed_.begin() + static_cast<ptrdiff_t>(middle),
                     changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
}

int32_t Sampler::choose(std::span<const float> logits) {
  find_changed(logits.size());
  if (sampling_.temperature == 0) {
    const int32_t id = likeliest(logits);
    if (id >= 0) return id;
  }
  Candidates& all = scratch_of_thread().all;
  all_tokens(logits, all);
  for (const int32_t id : changed_) all.logits[id] = biased(id, all.logits[id]);
  if (!sampling_.logit_bias.empty() && largest(all.logits) == -infinity) {
    throw CodedError("USAGE", "logitBias leaves no token to draw.");
  }
  for (const int32_t id : changed_) all.logits[id] = penalised(id, all.logits[id]);
  if (sampling_.temperature == 0) {
    return static_cast<int32_t>(std::ranges::max_element(all.logits) - all.logits.begin());
  }
  Candidates left;
  return draw(truncate(all, left));
}

// In one pass over finite logits; of equally likely ones, the one with the smallest id. −1 where it
// takes another pass to tell, or to say what is wrong.
int32_t Sampler::likeliest(std::span<const float> logits) {
  double most = -infinity;
  int32_t id = -1;
  const auto take = [&](double logit, size_t at) {
    if (logit > most) {
      most = logit;
      id = static_cast<int32_t>(at);
    }
  };
  double raw = -infinity;  // the largest before any change
  size_t from = 0;
  const auto take_to = [&](size_t end) {
    const Peak peak = find_peak(logits.subspan(from, end - from));
    raw = std::max<double>(raw, peak.value);
    take(peak.value, from + peak.index);
  };
  for (const int32_t changed : changed_) {
    take_to(static_cast<size_t>(changed));
    const double logit = std::isnan(logits[changed]) ? -infinity : logits[changed];
    raw = std::max(raw, logit);
    take(penalised(changed, biased(changed, logit)), static_cast<size_t>(changed));
    from = static_cast<size_t>(changed) + 1;
  }
  take_to(logits.size());
  return std::abs(raw) == infinity ? -1 : id;
}

const Candidates& Sampler::truncate(const Candidates& all, Candidates& left) {
  const Candidates* from = &all;
  const auto keep = [&](Candidates some) {
    left = std::move(some);
    from = &left;
  };
  if (sampling_.top_k > 0 && sampling_.top_k < all.size()) keep(top_k(*from, sampling_.top_k));
  if (sampling_.typical_p < 1) keep(typical(*from, sampling_.typical_p));
  if (sampling_.top_p < 1) keep(top_p(*from, sampling_.top_p));
  if (sampling_.min_p > 0) keep(min_p(*from, sampling_.min_p));
  if (sampling_.xtc_probability > 0 && random_.next() < sampling_.xtc_probability) {
    keep(exclude_top_choices(*from, sampling_.xtc_threshold));
  }
  return *from;
}

int32_t Sampler::draw(const Candidates& candidates) {
  std::vector<double>& weights = scratch_of_thread().weights;
  double left = random_.next() * softmax(candidates.logits, sampling_.temperature, weights);
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return candidates.ids[last];
}

}  // namespace mlx_runners::lm
