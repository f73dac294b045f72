/** The sequences of a cache by their tokens, so that what two prompts begin with is read once. */
import { commonLength } from './common-length.js';
import type { CellSequences } from './step-model.js';

/** Tokens of which the first `fed` are in the cache, as a sequence. */
export interface CachedTokens {
  readonly tokens: readonly number[];
  readonly sequence: number;
  readonly fed: number;
}

// Fewer are as soon read as shared.
const leastShared = 16;

/** Where a text's first tokens are. */
export interface Prefix {
  source: CachedTokens | undefined;
  /** 0 where there is no source. */
  length: number;
}

/** The longest beginning that a source has of `tokens`, without the last, whose logits are to come. */
export function longestPrefix(tokens: readonly number[], sources: Iterable<CachedTokens>): Prefix {
  let best: Prefix = { source: undefined, length: 0 };
  for (const source of sources) {
    const length = Math.min(commonLength(tokens, source.tokens), source.fed, tokens.length - 1);
    if (length >= leastShared && length > best.length) best = { source, length };
  }
  return best;
}

/** Whether a source is about to read a beginning that is clearly longer than one of `length` tokens. */
export function isBeingRead(
  tokens: readonly number[],
  length: number,
  sources: Iterable<CachedTokens>,
): boolean {
  for (const source of sources) {
    const common = Math.min(commonLength(tokens, source.tokens), tokens.length - 1);
    if (common > source.fed && common - length >= leastShared) return true;
  }
  return false;
}

/** Sequences of texts that have ended, kept for those that begin as they do; the least recently used goes first. */
export class KeptSequences {
  readonly #cache: CellSequences;
  readonly #most: number;
  /** The most recently used last. */
  #kept: CachedTokens[] = [];

  constructor(cache: CellSequences, most: number) {
    this.#cache = cache;
    this.#most = most;
  }

  get count(): number {
    return this.#kept.length;
  }

  [Symbol.iterator](): Iterator<CachedTokens> {
    return this.#kept[Symbol.iterator]();
  }

  /** Takes over a sequence with all of `tokens`; one with only their beginning is needed no more. */
  keep(sequence: number, tokens: readonly number[]): void {
    const fed = tokens.length;
    if (fed < leastShared) {
      this.#cache.close(sequence);
      return;
    }
    for (const other of [...this.#kept]) {
      if (other.fed <= fed && commonLength(tokens, other.tokens) === other.fed) this.#drop(other);
    }
    this.#kept.push({ sequence, tokens, fed });
    while (this.#kept.length > this.#most) this.evict();
  }

  /** Notes that a sequence was of use. */
  touch(used: CachedTokens): void {
    const index = this.#kept.findIndex((each) => each === used);
    if (index >= 0) this.#kept.push(...this.#kept.splice(index, 1));
  }

  /**
   * Ends the one that was of no use for longest.
   *
   * @param spared goes last
   * @returns false when there is none
   */
  evict(spared?: CachedTokens): boolean {
    const victim = this.#kept.find((each) => each !== spared) ?? this.#kept.at(0);
    if (victim) this.#drop(victim);
    return victim !== undefined;
  }

  #drop(kept: CachedTokens): void {
    this.#kept = this.#kept.filter((each) => each !== kept);
    this.#cache.close(kept.sequence);
  }
}
