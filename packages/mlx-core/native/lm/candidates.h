// Tokens that may come next, and picking the best of them without sorting them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_runners::lm {

// Token ids and their logits, one beside the other.
struct Candidates {
  std::vector<int32_t> ids;
  std::vector<double> logits;

  size_t size() const { return ids.size(); }
};

struct Peak {
  float value;   // −Infinity where there is none
  size_t index;  // the first that has it
};

// The largest of a row; NaN counts as −Infinity.
Peak find_peak(std::span<const float> row);

// All tokens of a row of logits, by id. NaN becomes −Infinity; where a logit is Infinity, only such
// tokens are left. Throws CodedError "SHAPE" for an empty row, "NATIVE" when all are −Infinity.
void all_tokens(std::span<const float> row, Candidates& all);

double largest(std::span<const double> values);

// Probabilities up to one factor, in `weights`, and their sum.
double softmax(std::span<const double> logits, double temperature, std::vector<double>& weights);

using Places = std::vector<int32_t>;

// The places of the `count` greatest keys, greatest first; of equal ones those with the smaller id.
// Time grows with the keys, not with their logarithm: a heap holds the best so far, and few get in.
Places best(std::span<const double> keys, std::span<const int32_t> ids, size_t count);

// What best_until chooses by: a key, an id and a weight for each place.
struct Ranking {
  std::span<const double> keys;  // the greater, the earlier it is taken
  std::span<const int32_t> ids;
  std::span<const double> weights;
};

// Leaves the places of the greatest keys whose weights first add up to `mass`, in no order that
// matters; at least one. Of equal keys those with the smaller id are taken first. A quickselect:
// time grows with the places.
void best_until(Places& places, const Ranking& ranking, double mass);

// The places of weights of `bound` or more, in order.
Places places_from(double bound, std::span<const double> weights);

Candidates picked(const Candidates& candidates, std::span<const int32_t> places);

}  // namespace mlx_runners::lm
