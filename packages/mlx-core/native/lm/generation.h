// Feeds tokens to a program's method, samples the next from its logits, feeds that, and so on.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "lm/sampler.h"
#include "program/session.h"

namespace mlx_runners::lm {

// A burst of tokens. The method takes `ids` int32 [1, T] and maybe `rows` int32 [1], which is given
// T − 1; the dimension `past`, the tokens fed before; and gives `logits` [1, R, vocabulary] of
// float32, float16 or bfloat16, of which the last row counts.
struct Burst {
  // Its inputs are made here; of its dimensions, `past` is set for each step.
  program::Call call;
  std::optional<size_t> rows_input;  // its number, 0 or 1, where there is one
  size_t past_dimension = 0;
  size_t logits_output = 0;
  std::vector<int32_t> ids;  // to feed first; at least one
  int64_t past = 0;          // tokens fed before
  std::vector<int32_t> stop_ids;
  size_t max_tokens = 1;   // at least one
  double max_seconds = 0;  // after which no further token is begun
};

// Why a burst ended: at max_tokens or max_seconds, at a stop id, when it was cancelled, or because
// a step after the first failed. That one is the next burst's first, which throws what is wrong.
enum class Ended { Limit, Stop, Aborted, Interrupted };

struct Generated {
  std::vector<SampledToken> tokens;  // the last one has not been fed
  Ended ended = Ended::Limit;
  int64_t past = 0;          // tokens that have been fed, now
  double first_seconds = 0;  // until the first token was sampled
  double seconds = 0;
};

// With the session's lane held. However it ends, the session is as after feeding `past` tokens,
// except where sampling throws. Throws CodedErrors: what the first step's Session::run throws,
// "PROGRAM" for logits that can't be sampled from, and those of Sampler.
Generated generate(program::Session& session, Burst burst, Sampler& sampler);

}  // namespace mlx_runners::lm
