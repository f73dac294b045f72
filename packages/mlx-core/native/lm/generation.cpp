#include "lm/generation.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "core/errors.h"
#include "program/dimensions.h"

namespace mlx_runners::lm {
namespace {

namespace mx = mlx::core;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

mx::array int32_array(std::span<const int32_t> values, mx::Shape shape) {
  return mx::array(values.data(), std::move(shape), mx::int32);
}

// Runs the method on ids; what it throws leaves the session as it is.
std::vector<mx::array> run(program::Session& session, Burst& burst, std::span<const int32_t> ids,
                           int64_t past) {
  const auto count = static_cast<int32_t>(ids.size());
  program::Call& call = burst.call;
  call.inputs.assign(burst.rows_input ? 2 : 1, int32_array(ids, {1, count}));
  if (burst.rows_input) call.inputs.at(*burst.rows_input) = mx::array({count - 1}, mx::int32);
  call.dimensions.at(burst.past_dimension) = static_cast<double>(past);
  return session.run(call);
}

template <class T>
void widen(const mx::array& array, int64_t start, int64_t step, std::span<float> to) {
  const T* from = array.data<T>() + start;
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i * step]);
}

// The last row as it lies there, or in `copy`.
std::span<const float> last_row(const mx::array& logits, std::vector<float>& copy) {
  if (logits.ndim() == 0 || logits.size() == 0) {
    throw CodedError("PROGRAM", "logits are " + program::in_words(logits) + ", and have no row");
  }
  const int last = static_cast<int>(logits.ndim()) - 1;
  const auto vocabulary = static_cast<size_t>(logits.shape(last));
  const int64_t step = logits.strides(last);
  int64_t start = 0;
  for (int axis = 0; axis < last; ++axis) start += (logits.shape(axis) - 1) * logits.strides(axis);
  if (logits.dtype() == mx::float32 && step == 1) return {logits.data<float>() + start, vocabulary};
  copy.resize(vocabulary);
  if (logits.dtype() == mx::float32) {
    widen<float>(logits, start, step, copy);
  } else if (logits.dtype() == mx::float16) {
    widen<mx::float16_t>(logits, start, step, copy);
  } else if (logits.dtype() == mx::bfloat16) {
    widen<mx::bfloat16_t>(logits, start, step, copy);
  } else {
    throw CodedError("PROGRAM", "logits are " + program::in_words(logits) +
                                    ", and have to be float32, float16 or bfloat16");
  }
  return copy;
}

}  // namespace

Generated generate(program::Session& session, Burst burst, Sampler& sampler) {
  const auto start = Clock::now();
  Generated done;
  done.past = burst.past;
  std::vector<int32_t> ids = std::move(burst.ids);
  std::vector<float> copy;
  for (;;) {
    std::vector<mx::array> outputs;
    try {
      outputs = run(session, burst, ids, done.past);
    } catch (const CodedError& error) {
      const bool aborted = std::strcmp(error.code(), "ABORTED") == 0;
      if (!aborted && done.tokens.empty()) throw;
      done.ended = aborted ? Ended::Aborted : Ended::Interrupted;
      done.seconds = seconds_since(start);
      return done;
    }
    done.past += static_cast<int64_t>(ids.size());
    done.tokens.push_back(sampler.sample(last_row(outputs.at(burst.logits_output), copy)));
    done.seconds = seconds_since(start);
    if (done.tokens.size() == 1) done.first_seconds = done.seconds;
    const int32_t id = done.tokens.back().id;
    const bool stops = std::ranges::find(burst.stop_ids, id) != burst.stop_ids.end();
    if (stops || done.tokens.size() >= burst.max_tokens || done.seconds >= burst.max_seconds) {
      done.ended = stops ? Ended::Stop : Ended::Limit;
      return done;
    }
    ids.assign(1, id);
  }
}

}  // namespace mlx_runners::lm
