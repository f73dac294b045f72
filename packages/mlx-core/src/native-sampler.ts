/** Sampling, in the addon: native/lm/sampler.h. */
import { getRandomValues } from 'node:crypto';
import { shown, typedError } from './call.js';
import { DtypeError, UsageError } from './errors.js';
import { native, type SamplerHandle, type SamplingNumbers, type TokenTables } from './native.js';

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

export interface SampledToken extends Partial<TokenLogprobs> {
  id: number;
}

/** Valid options, all of them. */
export interface NativeSampling extends SamplingNumbers {
  logitBias: ReadonlyMap<number, number>;
  /** 0 to 2⁶⁴ − 1; none for a new one. */
  seed: bigint | undefined;
}

/** Draws the tokens of one completion, each from its row of logits. */
export class NativeSampler {
  /** @internal */
  readonly handle: SamplerHandle;

  constructor({ logitBias, seed, ...numbers }: NativeSampling) {
    const biases = Float64Array.from([...logitBias].flat());
    const chosen = seed ?? getRandomValues(new BigUint64Array(1))[0];
    this.handle = native().createSampler(numbers, biases, chosen);
  }

  /**
   * The next token of the completion; it counts as one of it from then on.
   *
   * @param logits one row, [vocabulary]; it stays as it is. NaN counts as −Infinity.
   * @throws ShapeError for an empty row, NativeError when all are −Infinity, UsageError when biases make
   *   them so, and while `generate` uses the sampler
   */
  sample(logits: Float32Array): SampledToken {
    if (!(logits instanceof Float32Array)) {
      throw new DtypeError(`A row of logits has to be a Float32Array, not ${shown(logits)}.`);
    }
    try {
      return sampledTokens(native().sampleToken(this.handle, logits))[0];
    } catch (error) {
      throw typedError(error);
    }
  }

  /**
   * Adds a token that was not drawn here to the completion, so that penalties see it.
   *
   * @throws UsageError for what is no token id, and while `generate` uses the sampler
   */
  add(id: number): void {
    if (!(Number.isInteger(id) && id >= 0 && id < 2 ** 31)) {
      throw new UsageError(`A token id is a whole number of 0 or more, not ${shown(id)}.`);
    }
    try {
      native().addToken(this.handle, id);
    } catch (error) {
      throw typedError(error);
    }
  }
}

/** The same one by one. */
export function sampledTokens({ ids, logprobs, topIds, topLogprobs }: TokenTables): SampledToken[] {
  if (!logprobs || !topIds || !topLogprobs) return Array.from(ids, (id) => ({ id }));
  const top = ids.length === 0 ? 0 : topIds.length / ids.length;
  return Array.from(ids, (id, i) => ({
    id,
    logprob: logprobs[i],
    topLogprobs: Array.from({ length: top }, (_, k) => ({
      id: topIds[i * top + k],
      logprob: topLogprobs[i * top + k],
    })),
  }));
}
