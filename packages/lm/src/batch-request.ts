/** One text of a batch: what is known of it, and where it goes. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { Finish } from './completion.js';
import { taken, type GenerationPlan, type TextEnd } from './generation.js';
import { TextParts } from './text-parts.js';

export class BatchRequest {
  readonly parts = new TextParts();
  /** The prompt and what was drawn. */
  readonly tokens: number[];
  /** How many of the tokens are in the cache. */
  fed = 0;
  readonly #plan: GenerationPlan;
  readonly #promptTokens: number;
  /** The most tokens in the cache. */
  readonly #capacity: number;
  /** How many of the prompt another sequence had; unknown before it was first let in. */
  #cachedTokens: number | undefined;
  #started: number | undefined;
  #first: number | undefined;
  #sequence: number | undefined;

  /** @param capacity the most tokens that it may have in the cache */
  constructor(prompt: readonly number[], plan: GenerationPlan, capacity: number) {
    this.tokens = [...prompt];
    this.#plan = plan;
    this.#promptTokens = prompt.length;
    this.#capacity = capacity;
    const { finish } = plan.completion;
    if (finish) this.parts.end(this.#end(finish));
  }

  start(): void {
    this.#started = performance.now();
  }

  /** Where it is in the cache. @throws UsageError when it waits */
  get sequence(): number {
    if (this.#sequence === undefined) throw new UsageError('This text is not in the cache.');
    return this.#sequence;
  }

  /** How many more tokens it may come to have in the cache. */
  get growth(): number {
    const longest = Math.min(this.#promptTokens + this.#plan.maxTokens, this.#capacity);
    return Math.max(0, longest - this.tokens.length);
  }

  /** It is in the cache now. @param fed how many of its tokens are there already */
  enter(sequence: number, fed: number): void {
    this.#sequence = sequence;
    this.fed = fed;
    this.#cachedTokens ??= fed;
  }

  /** It has nothing in the cache any more. @returns the sequence that it had */
  leave(): number {
    const { sequence } = this;
    this.#sequence = undefined;
    this.fed = 0;
    return sequence;
  }

  /** Tokens up to `end` are in the cache now. */
  advance(end: number): void {
    this.fed = end;
    const cached = this.#cachedTokens ?? 0;
    if (this.#first !== undefined || end <= cached) return;
    this.#plan.onPrefill?.(end - cached, this.#promptTokens - cached);
  }

  /** Draws the next token; the text may end with it. */
  draw(logits: Float32Array): void {
    const { sampler, completion } = this.#plan;
    const token = sampler.sample(logits);
    this.#first ??= performance.now();
    this.tokens.push(token.id);
    const part = taken(completion, [token]);
    if (this.fed === this.#capacity) part.text += completion.endAtLimit();
    this.parts.push(part);
    if (completion.finish) this.parts.end(this.#end(completion.finish));
  }

  #end(finish: Finish): TextEnd {
    const now = performance.now();
    const first = this.#first ?? now;
    return {
      finish,
      usage: {
        promptTokens: this.#promptTokens,
        cachedTokens: this.#cachedTokens ?? 0,
        completionTokens: this.#plan.completion.tokens,
        prefillSeconds: (first - (this.#started ?? now)) / 1000,
        decodeSeconds: (now - first) / 1000,
      },
    };
  }
}
