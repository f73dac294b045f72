import { UsageError } from '@mlx-runners/mlx-core/errors';
import { allTokens, largest, softmax, type Candidates } from './candidates.js';
import { logprobsOf, type TokenLogprobs } from './logprobs.js';
import { Random } from './random.js';
import { checkedSampling, type Sampling, type SamplingOptions } from './sampling-options.js';
import { excludeTopChoices, minP, topK, topP, typical } from './truncation.js';

export interface SampledToken extends Partial<TokenLogprobs> {
  id: number;
}

/**
 * Draws the tokens of one completion, each from its row of logits. What it does depends on its own options,
 * seed and tokens alone, never on other requests of a batch.
 *
 * In this order, as llama.cpp: biases, penalties, top-k, typical, top-p, min-p, XTC, temperature. Each of
 * the middle ones takes what the one before it left for the whole distribution.
 */
export class Sampler {
  readonly sampling: Sampling;
  private readonly random: Random;
  /** How often each token is in the completion. */
  private readonly counts = new Map<number, number>();

  /** @throws UsageError for an option that there is not, or that is out of its range */
  constructor(options: SamplingOptions = {}) {
    this.sampling = checkedSampling(options);
    this.random = new Random(this.sampling.seed);
  }

  /**
   * The next token of the completion; it counts as one of it from then on.
   *
   * @param logits one row, [vocabulary]; it stays as it is. NaN counts as −Infinity.
   * @throws ShapeError for an empty row, NativeError when all are −Infinity, UsageError when biases make them so
   */
  sample(logits: Float32Array): SampledToken {
    const id = this.choose(logits);
    this.add(id);
    if (!this.sampling.logprobs) return { id };
    return { id, ...logprobsOf(logits, id, this.sampling.topLogprobs) };
  }

  /** Adds a token that was not drawn here to the completion, so that penalties see it. */
  add(id: number): void {
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1);
  }

  private choose(logits: Float32Array): number {
    const all = allTokens(logits);
    this.addBiases(all);
    this.penalise(all.logits);
    const { temperature } = this.sampling;
    return temperature === 0 ? likeliest(all) : this.draw(this.truncate(all), temperature);
  }

  private addBiases({ logits }: Candidates): void {
    const { logitBias } = this.sampling;
    if (logitBias.size === 0) return;
    for (const [id, bias] of logitBias) {
      if (id >= 0 && id < logits.length) logits[id] += bias;
    }
    if (largest(logits) === -Infinity) throw new UsageError('logitBias leaves no token to draw.');
  }

  private penalise(logits: Float64Array): void {
    const { repetitionPenalty, presencePenalty, frequencyPenalty } = this.sampling;
    if (repetitionPenalty === 1 && presencePenalty === 0 && frequencyPenalty === 0) return;
    for (const [id, count] of this.counts) {
      if (id >= logits.length) continue;
      const logit = logits[id];
      const repeated = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
      logits[id] = repeated - presencePenalty - frequencyPenalty * count;
    }
  }

  private truncate(all: Candidates): Candidates {
    const { topK: k, typicalP, topP: p, minP: part, xtcProbability, xtcThreshold } = this.sampling;
    let left = all;
    if (k > 0 && k < left.ids.length) left = topK(left, k);
    if (typicalP < 1) left = typical(left, typicalP);
    if (p < 1) left = topP(left, p);
    if (part > 0) left = minP(left, part);
    if (xtcProbability > 0 && this.random.next() < xtcProbability) {
      left = excludeTopChoices(left, xtcThreshold);
    }
    return left;
  }

  private draw({ ids, logits }: Candidates, temperature: number): number {
    const { weights, sum } = softmax(logits, temperature);
    let left = this.random.next() * sum;
    let last = 0;
    for (let i = 0; i < weights.length; i++) {
      if (weights[i] === 0) continue;
      last = i;
      left -= weights[i];
      if (left < 0) break;
    }
    return ids[last];
  }
}

/** Of equally likely ones, the one with the smallest id. */
function likeliest({ ids, logits }: Candidates): number {
  let best = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i] > logits[best]) best = i;
  return ids[best];
}
