import { NativeSampler } from '@mlx-runners/mlx-core/program';
import { checkedSampling, type Sampling, type SamplingOptions } from './sampling-options.js';

/**
 * Draws the tokens of one completion, each from its row of logits. What it does depends on its own options,
 * seed and tokens alone, never on other requests of a batch.
 *
 * In this order, as llama.cpp: biases, penalties, top-k, typical, top-p, min-p, XTC, temperature. Each of
 * the middle ones takes what the one before it left for the whole distribution.
 */
export class Sampler extends NativeSampler {
  readonly sampling: Sampling;

  /** @throws UsageError for an option that there is not, or that is out of its range */
  constructor(options: SamplingOptions = {}) {
    const sampling = checkedSampling(options);
    super(sampling);
    this.sampling = sampling;
  }
}
