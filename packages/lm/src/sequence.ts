/** One sequence of tokens that a loaded decoder continues: a session, with what it remembers of them. */
import {
  mx,
  throwIfAborted,
  UsageError,
  type MxArray,
  type SequenceCache,
} from '@mlx-runners/mlx-core';
import type { SampledToken } from '@mlx-runners/mlx-core/program';
import type { Session } from '@mlx-runners/program';
import { commonLength } from './common-length.js';
import type { DecoderConstants } from './decoder-program.js';
import type { Sampler } from './sampler.js';

export interface FeedOptions {
  signal?: AbortSignal;
  /** Told how many of the tokens have been fed. */
  onProgress?: (done: number, total: number) => void;
}

export interface ContinueOptions extends FeedOptions {
  sampler: Sampler;
  /** Tokens after which nothing is drawn. */
  stopIds: ReadonlySet<number>;
  /** The most tokens to draw, at least 1. */
  maxTokens: number;
  /** After so long no further token is drawn. */
  maxSeconds?: number;
}

export class Sequence {
  readonly constants: DecoderConstants;
  /** What has been fed, from the first token on. */
  readonly tokens: number[] = [];
  /** Keys and values; none where they are in the session's states. */
  readonly cache: SequenceCache | undefined;
  readonly #session: Session;
  /** In-graph: how many tokens calls have written to the states, or may have; rings have the last ones. */
  #written = 0;
  #disposed = false;

  /** @internal Use `DecoderModel.sequence`. */
  constructor(session: Session, constants: DecoderConstants, cache: SequenceCache | undefined) {
    this.#session = session;
    this.constants = constants;
    this.cache = cache;
  }

  /** The most tokens that it may have. */
  get capacity(): number {
    return this.constants.contextLength;
  }

  /**
   * Makes what has been fed a beginning of `ids`, as long as possible but without the last of them, whose logits
   * are to come.
   *
   * @returns how many of `ids` need not be fed again
   */
  reuse(ids: readonly number[]): number {
    const same = Math.min(commonLength(this.tokens, ids), ids.length - 1);
    return this.rewind(same) ? same : 0;
  }

  /**
   * Forgets the tokens from `length` on. Where a window has dropped what would be needed again, all are forgotten.
   *
   * @returns whether the first ones are still there
   */
  rewind(length: number): boolean {
    if (length >= this.tokens.length) return true;
    const kept = this.#canRewind(length) ? length : 0;
    if (kept === 0) this.#clear();
    else this.cache?.rewind(kept);
    this.tokens.length = kept;
    return kept === length;
  }

  #clear(): void {
    this.cache?.clear();
    this.tokens.length = 0;
    this.#written = 0;
  }

  #canRewind(length: number): boolean {
    if (this.cache) return this.cache.canRewind(length);
    const { cacheRows = [], prefillChunk } = this.constants;
    return cacheRows.every((rows) => {
      // A ring has room for a window and for what one call writes besides.
      const window = rows - prefillChunk + 1;
      return this.#written <= rows || length - window + 1 >= this.#written - rows;
    });
  }

  /** @throws UsageError when so many more tokens don't fit */
  checkRoom(count: number): void {
    const { length } = this.tokens;
    if (length + count <= this.capacity) return;
    const before = length > 0 ? `${length} tokens and ${count} more` : `${count} tokens`;
    throw new UsageError(`The context holds ${this.capacity} tokens: ${before} are too many.`);
  }

  /** Feeds tokens, in pieces; nothing is drawn. What had been fed when a signal fires stays. */
  async feed(ids: readonly number[], { signal, onProgress }: FeedOptions = {}): Promise<void> {
    this.checkRoom(ids.length);
    const { prefillChunk } = this.constants;
    for (let start = 0; start < ids.length; start += prefillChunk) {
      const piece = ids.slice(start, start + prefillChunk);
      (await this.#run(piece, [piece.length - 1], signal)).dispose();
      onProgress?.(start + piece.length, ids.length);
    }
  }

  /**
   * Feeds tokens and draws further ones, of which all but the last are fed in turn, in native code.
   *
   * @param ids at least one
   * @returns at least one token; a stop token is the last
   */
  async continue(ids: readonly number[], options: ContinueOptions): Promise<SampledToken[]> {
    const { sampler, stopIds, maxTokens, maxSeconds, signal } = options;
    this.checkRoom(ids.length);
    const before = Math.max(0, ids.length - this.constants.prefillChunk);
    if (before > 0) await this.feed(ids.slice(0, before), options);
    const last = ids.slice(before);
    const past = this.tokens.length;
    const most = Math.min(maxTokens, this.capacity - past - last.length + 1);
    const burst = await this.#inStep(past + last.length + most, () =>
      this.#session.generate('forward', {
        ids: Int32Array.from(last),
        past,
        sampler,
        stopIds,
        maxTokens: most,
        maxSeconds,
        signal,
        cache: this.cache,
      }),
    );
    // An aborted step may have written, too: the first one all that it was given.
    this.#written = Math.max(this.#written, past + last.length, burst.past + 1);
    const fed = [...last, ...burst.tokens.map(({ id }) => id)];
    this.#remember(fed.slice(0, burst.past - past));
    if (burst.ended === 'aborted') throwIfAborted(signal);
    return burst.tokens;
  }

  /**
   * Feeds tokens, at most a chunk of them.
   *
   * @param rows those of them whose logits are wanted
   * @returns [rows, vocabulary] where the program can select rows
   */
  async logits(
    ids: readonly number[],
    rows: readonly number[],
    signal?: AbortSignal,
  ): Promise<MxArray> {
    this.checkRoom(ids.length);
    if (this.constants.logitsToKeep === 'last') {
      throw new UsageError('This program gives the logits of the last token only.');
    }
    using logits = await this.#run(ids, rows, signal);
    const isFull = this.constants.logitsToKeep === 'full';
    return mx.tidy(() => {
      const kept = isFull ? logits.take(mx.array(Int32Array.from(rows)), 1) : logits;
      return kept.squeeze(0);
    });
  }

  async #run(
    ids: readonly number[],
    rows: readonly number[],
    signal: AbortSignal | undefined,
  ): Promise<MxArray> {
    throwIfAborted(signal);
    const past = this.tokens.length;
    using fed = mx.array(Int32Array.from(ids), [1, ids.length]);
    using kept = mx.array(Int32Array.from(rows));
    const inputs: Record<string, MxArray | number> = { ids: fed, past };
    if (this.constants.logitsToKeep === 'selected') inputs.rows = kept;
    const { outputs } = await this.#inStep(past + ids.length, () =>
      this.#session.run('forward', inputs, { signal, cache: this.cache }),
    );
    this.#remember(ids);
    return outputs.logits;
  }

  /**
   * A call, after whose failure keys and values are those of the tokens again.
   *
   * @param written how many tokens it may have written before it failed
   */
  async #inStep<T>(written: number, call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      this.#written = Math.max(this.#written, written);
      const { length } = this.tokens;
      if (!this.#disposed && this.cache && this.cache.length !== length) {
        if (this.cache.canRewind(length)) this.cache.rewind(length);
        else this.#clear();
      }
      throw error;
    }
  }

  #remember(fed: readonly number[]): void {
    for (const id of fed) this.tokens.push(id);
    this.#written = Math.max(this.#written, this.tokens.length);
  }

  /**
   * Takes the place of an empty sequence that was fed these tokens.
   *
   * @param state the cache's
   * @throws UsageError without a cache of its own; ShapeError for a state that doesn't fit
   */
  async restore(tokens: readonly number[], state: ReadonlyMap<string, MxArray>): Promise<void> {
    if (!this.cache)
      throw new UsageError("This export's cache is in its graph: it can't be loaded.");
    await this.cache.load(state);
    if (this.cache.length !== tokens.length) {
      const { length } = this.cache;
      this.cache.clear();
      throw new UsageError(`There are ${tokens.length} tokens, and keys and values of ${length}.`);
    }
    this.#remember(tokens);
  }

  dispose(): void {
    this.#disposed = true;
    this.#session.dispose();
    this.cache?.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
