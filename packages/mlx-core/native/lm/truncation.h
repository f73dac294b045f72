// The stages that leave unlikely (or too likely) tokens out. Each gives some of its candidates, at
// least one.
#pragma once

#include "lm/candidates.h"

namespace mlx_runners::lm {

// The `count` likeliest, likeliest first.
Candidates top_k(const Candidates& candidates, size_t count);

// The likeliest that together have the probability `mass` (Holtzman et al. 2019).
Candidates top_p(const Candidates& candidates, double mass);

// Those at least `part` as likely as the likeliest (Nguyen et al. 2024).
Candidates min_p(const Candidates& candidates, double part);

// Those whose surprise is nearest to the expected one, that together have the probability `mass`
// (Meister et al. 2022).
Candidates typical(const Candidates& candidates, double mass);

// All but the likeliest of those with a probability of `threshold` or more, of which the least
// likely stays.
Candidates exclude_top_choices(const Candidates& candidates, double threshold);

}  // namespace mlx_runners::lm
