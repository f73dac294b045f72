#include "lm/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "core/errors.h"

namespace mlx_runners::lm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// In lanes, which compilers turn into vectors.
float largest_of(std::span<const float> values) {
  constexpr size_t width = 16;
  std::array<float, width> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + width <= values.size(); i += width) {
    for (size_t lane = 0; lane < width; ++lane) {
      const float value = values[i + lane];
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  for (; i < values.size(); ++i) lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  return *std::ranges::max_element(lanes);
}

}  // namespace

Peak find_peak(std::span<const float> row) {
  constexpr size_t chunk = 1024;
  Peak peak{-std::numeric_limits<float>::infinity(), 0};
  for (size_t start = 0; start < row.size(); start += chunk) {
    const float value = largest_of(row.subspan(start, std::min(chunk, row.size() - start)));
    if (value > peak.value) peak = {value, start};
  }
  if (peak.value > -std::numeric_limits<float>::infinity()) {
    while (row[peak.index] != peak.value) ++peak.index;
  }
  return peak;
}

void all_tokens(std::span<const float> row, Candidates& all) {
  if (row.empty()) throw CodedError("SHAPE", "A row of logits is empty.");
  if (all.ids.size() != row.size()) {
    all.ids.resize(row.size());
    std::iota(all.ids.begin(), all.ids.end(), 0);
  }
  all.logits.resize(row.size());
  const float max = find_peak(row).value;
  if (max == -infinity) {
    throw CodedError("NATIVE", "The model gave no usable logits: all " +
                                   std::to_string(row.size()) + " are -Infinity or NaN.");
  }
  if (max == infinity) {
    std::ranges::transform(row, all.logits.begin(),
                           [](float logit) { return logit == infinity ? 0 : -infinity; });
  } else {
    std::ranges::transform(row, all.logits.begin(), [](float logit) {
      return logit >= -infinity ? static_cast<double>(logit) : -infinity;
    });
  }
}

double largest(std::span<const double> values) {
  double max = -infinity;
  for (const double value : values) max = value > max ? value : max;
  return max;
}

double softmax(std::span<const double> logits, double temperature, std::vector<double>& weights) {
  const double max = largest(logits);
  weights.resize(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((logits[i] - max) / temperature);
    sum += weights[i];
  }
  return sum;
}

Places best(std::span<const double> keys, std::span<const int32_t> ids, size_t count) {
  const size_t size = std::min(count, keys.size());
  Places heap(size);
  if (size == 0) return heap;
  const auto is_better = [&](int32_t a, int32_t b) {
    return keys[a] > keys[b] || (keys[a] == keys[b] && ids[a] < ids[b]);
  };
  // The worst of the best is on top.
  std::iota(heap.begin(), heap.end(), 0);
  std::ranges::make_heap(heap, is_better);
  double bound = keys[heap.front()];
  for (size_t i = size; i < keys.size(); ++i) {
    if (keys[i] < bound || !is_better(static_cast<int32_t>(i), heap.front())) continue;
    std::ranges::pop_heap(heap, is_better);
    heap.back() = static_cast<int32_t>(i);
    std::ranges::push_heap(heap, is_better);
    bound = keys[heap.front()];
  }
  std::ranges::sort_heap(heap, is_better);
  return heap;
}

void best_until(Places& places, const Ranking& ranking, double mass) {
  const auto& [keys, ids, weights] = ranking;
  // All before `low` are taken, and don't suffice; with all before `high` there is enough.
  size_t low = 0;
  size_t high = places.size();
  double taken = 0;
  while (high - low > 1) {
    const size_t centre = (low + high) / 2;
    const int32_t pivot = places[centre];
    places[centre] = places[high - 1];
    size_t middle = low;
    double better = 0;
    for (size_t i = low; i < high - 1; ++i) {
      const int32_t place = places[i];
      if (!(keys[place] > keys[pivot] || (keys[place] == keys[pivot] && ids[place] < ids[pivot]))) {
        continue;
      }
      places[i] = places[middle];
      places[middle++] = place;
      better += weights[place];
    }
    places[high - 1] = places[middle];
    places[middle] = pivot;
    if (middle > 0 && taken + better >= mass) {
      high = middle;
    } else if (taken + better + weights[pivot] >= mass) {
      high = middle + 1;
      break;
    } else {
      taken += better + weights[pivot];
      low = middle + 1;
    }
  }
  places.resize(high);
}

Places places_from(double bound, std::span<const double> weights) {
  Places places;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] >= bound) places.push_back(static_cast<int32_t>(i));
  }
  return places;
}

Candidates picked(const Candidates& candidates, std::span<const int32_t> places) {
  Candidates left;
  left.ids.reserve(places.size());
  left.logits.reserve(places.size());
  for (const int32_t place : places) {
    left.ids.push_back(candidates.ids[place]);
    left.logits.push_back(candidates.logits[place]);
  }
  return left;
}

}  // namespace mlx_runners::lm
