/** The stages that leave unlikely (or too likely) tokens out. Each returns some of its candidates, at least one. */

import {
  best,
  bestUntil,
  largest,
  picked,
  placesFrom,
  softmax,
  type Candidates,
} from './candidates.js';

/** The `count` likeliest, likeliest first. */
export function topK(candidates: Candidates, count: number): Candidates {
  const { ids, logits } = candidates;
  return picked(candidates, best(logits, ids, count));
}

/** The likeliest that together have the probability `mass` (Holtzman et al. 2019), likeliest first. */
export function topP(candidates: Candidates, mass: number): Candidates {
  const { ids, logits } = candidates;
  const { weights, sum } = softmax(logits);
  // Those that are less likely than this don't make up the rest of the mass, however many they are.
  const places = placesFrom(((1 - mass) * sum) / ids.length, weights);
  return picked(candidates, bestUntil(places, { keys: logits, ids, weights }, mass * sum));
}

/** Those at least `part` as likely as the likeliest (Nguyen et al. 2024). */
export function minP(candidates: Candidates, part: number): Candidates {
  const { logits } = candidates;
  return picked(candidates, placesFrom(largest(logits) + Math.log(part), logits));
}

/** Those whose surprise is nearest to the expected one, that together have the probability `mass` (Meister et al. 2022). */
export function typical(candidates: Candidates, mass: number): Candidates {
  const { ids, logits } = candidates;
  const { weights, sum } = softmax(logits);
  const offset = largest(logits) + Math.log(sum);
  let entropy = 0;
  for (let i = 0; i < logits.length; i++) {
    if (weights[i] > 0) entropy -= (weights[i] / sum) * (logits[i] - offset);
  }
  const keys = new Float64Array(logits.length);
  for (let i = 0; i < logits.length; i++) keys[i] = -Math.abs(offset - logits[i] - entropy);
  const places = placesFrom(0, weights);
  return picked(candidates, bestUntil(places, { keys, ids, weights }, mass * sum));
}

/** All but the likeliest of those with a probability of `threshold` or more, of which the least likely stays. */
export function excludeTopChoices(candidates: Candidates, threshold: number): Candidates {
  const { ids, logits } = candidates;
  const { weights, sum } = softmax(logits);
  const above = placesFrom(threshold * sum, weights).length;
  if (above < 2) return candidates;
  const excluded = new Set(best(logits, ids, above - 1));
  const places = new Int32Array(ids.length - excluded.size);
  let next = 0;
  for (let i = 0; i < ids.length; i++) if (!excluded.has(i)) places[next++] = i;
  return picked(candidates, places);
}
