/** How well a model predicts a text. */
import { mx, throwIfAborted, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import type { Sequence } from './sequence.js';

export interface PerplexityOptions {
  signal?: AbortSignal;
  onProgress?: (done: number, total: number) => void;
}

export interface Perplexity {
  /** How many tokens were predicted: all but the first. */
  tokens: number;
  /** exp of the mean negative log-likelihood of a token. */
  perplexity: number;
  /** Negative log-likelihoods of the tokens from the second on, in nats. */
  nll: Float64Array;
}

// Of a vocabulary of 262,144 the logits of so many tokens are 67 MB.
const rowsAtOnce = 64;

/**
 * Predicts each token from all before it. A text that is longer than the context is cut into pieces of half its
 * length, each of which is read after the one before it.
 *
 * @param sequence an empty one
 * @throws UsageError for fewer than 2 tokens
 */
export async function perplexity(
  sequence: Sequence,
  ids: readonly number[],
  { signal, onProgress }: PerplexityOptions = {},
): Promise<Perplexity> {
  if (ids.length < 2) {
    throw new UsageError(`A perplexity takes at least 2 tokens; the text has ${ids.length}.`);
  }
  const nll = new Float64Array(ids.length - 1);
  const half = Math.floor(sequence.capacity / 2);
  const chunk = Math.min(rowsAtOnce, sequence.constants.prefillChunk, sequence.capacity - half);
  for (let start = 0; start < nll.length; start += chunk) {
    throwIfAborted(signal);
    const end = Math.min(start + chunk, nll.length);
    if (sequence.tokens.length + end - start > sequence.capacity) {
      const again = Math.max(0, start - half);
      sequence.rewind(0);
      await sequence.feed(ids.slice(again, start), { signal });
    }
    await score(sequence, ids, start, end, nll);
    onProgress?.(end, nll.length);
  }
  const mean = nll.reduce((sum, each) => sum + each, 0) / nll.length;
  return { tokens: nll.length, perplexity: Math.exp(mean), nll };
}

async function score(
  sequence: Sequence,
  ids: readonly number[],
  start: number,
  end: number,
  nll: Float64Array,
): Promise<void> {
  const rows = Array.from({ length: end - start }, (_, i) => i);
  using logits = await sequence.logits(ids.slice(start, end), rows);
  using likelihoods = mx.tidy(() => {
    const next = mx.array(Int32Array.from(ids.slice(start + 1, end + 1)), [end - start, 1]);
    const chosen = logits.takeAlongAxis(next, 1).squeeze(1);
    return logSumExp(logits).subtract(chosen);
  });
  nll.set(Float64Array.from(await likelihoods.data(), Number), start);
}

/** Of rows [R, V] → [R], block by block: one sum of as many numbers as a vocabulary has loses digits in float32. */
function logSumExp(rows: MxArray): MxArray {
  const block = 256;
  const [count, length] = rows.shape;
  const missing = Math.ceil(length / block) * block - length;
  const padded = missing > 0 ? rows.pad([0, 0, 0, missing], -Infinity) : rows;
  return padded.reshape([count, -1, block]).logsumexp(2).logsumexp(1);
}
