import { allTokens, best, largest, softmax } from './candidates.js';

/** A token and the natural logarithm of its probability. */
export interface Logprob {
  id: number;
  logprob: number;
}

export interface TokenLogprobs {
  /** Of the token itself. */
  logprob: number;
  /** Of the likeliest tokens, likeliest first. */
  topLogprobs: Logprob[];
}

/** Log-probabilities in the model's own distribution: a row of logits as it is, in float64. */
export function logprobsOf(row: Float32Array, id: number, count: number): TokenLogprobs {
  const { ids, logits } = allTokens(row);
  const offset = largest(logits) + Math.log(softmax(logits).sum);
  const logprob = (token: number): number => logits[token] - offset;
  const top = Array.from(best(logits, ids, count), (token) => ({
    id: token,
    logprob: logprob(token),
  }));
  return { logprob: logprob(id), topLogprobs: top };
}
