#include "lm/truncation.h"

#include <cmath>

namespace mlx_runners::lm {
namespace {

// Kept from call to call, since a vocabulary may have hundreds of thousands of tokens.
std::vector<double>& weights_of_thread() {
  thread_local std::vector<double> weights;
  return weights;
}

}  // namespace

Candidates top_k(const Candidates& candidates, size_t count) {
  return picked(candidates, best(candidates.logits, candidates.ids, count));
}

Candidates top_p(const Candidates& candidates, double mass) {
  std::vector<double>& weights = weights_of_thread();
  const double sum = softmax(candidates.logits, 1, weights);
  // Those that are less likely than this don't make up the rest of the mass, however many they are.
  const double bound = (1 - mass) * sum / static_cast<double>(candidates.size());
  Places places = places_from(bound, weights);
  best_until(places, {candidates.logits, candidates.ids, weights}, mass * sum);
  return picked(candidates, places);
}

Candidates min_p(const Candidates& candidates, double part) {
  const double bound = largest(candidates.logits) + std::log(part);
  return picked(candidates, places_from(bound, candidates.logits));
}

Candidates typical(const Candidates& candidates, double mass) {
  const std::vector<double>& logits = candidates.logits;
  std::vector<double>& weights = weights_of_thread();
  const double sum = softmax(logits, 1, weights);
  const double offset = largest(logits) + std::log(sum);
  double entropy = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (weights[i] > 0) entropy -= weights[i] / sum * (logits[i] - offset);
  }
  std::vector<double> keys(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) keys[i] = -std::abs(offset - logits[i] - entropy);
  Places places = places_from(0, weights);
  best_until(places, {keys, candidates.ids, weights}, mass * sum);
  return picked(candidates, places);
}

Candidates exclude_top_choices(const Candidates& candidates, double threshold) {
  std::vector<double>& weights = weights_of_thread();
  const double sum = softmax(candidates.logits, 1, weights);
  const size_t above = places_from(threshold * sum, weights).size();
  if (above < 2) return candidates;
  std::vector<bool> excluded(candidates.size());
  for (const int32_t place : best(candidates.logits, candidates.ids, above - 1)) {
    excluded[place] = true;
  }
  Places places;
  for (size_t i = 0; i < excluded.size(); ++i) {
    if (!excluded[i]) places.push_back(static_cast<int32_t>(i));
  }
  return picked(candidates, places);
}

}  // namespace mlx_runners::lm
