/** Which tokens of many sessions a model computes together in its next step. This file loads nothing native. */
import { UsageError } from '@mlx-runners/mlx-core/errors';

/** Tokens that a session wants to feed at once: one that was drawn, or a chunk of a prompt. */
export interface SessionStep {
  /** Unique among those that wait. */
  id: number;
  session: number;
  tokens: readonly number[];
}

export interface SchedulerOptions {
  /** The most single tokens of a batch. Default 32. */
  maxDecodeSequences?: number;
  /** The most tokens of a chunk. Default 256. */
  maxPrefillChunk?: number;
}

const largestInt32 = 2 ** 31 - 1;

/**
 * Single tokens come first, in the order in which they were submitted, so that answers go on while prompts are
 * read. What they leave of a batch is for chunks: one of each session in turn, and again until it is full. A session
 * whose chunk didn't fit is the first one next time.
 *
 * A session's steps keep their order: a single token that is submitted behind a chunk of its session comes in the
 * session's turn, as a chunk would.
 */
export class Scheduler<Step extends SessionStep = SessionStep> {
  readonly maxDecodeSequences: number;
  readonly maxPrefillChunk: number;
  /** The most tokens of a batch: two chunks beside all single tokens. */
  readonly maxBatchSize: number;
  readonly #ids = new Set<number>();
  #decodes: Step[] = [];
  /** By session, in the order of their turns; none is empty. */
  readonly #chunks = new Map<number, Step[]>();

  /** @throws UsageError for sizes below 1, and for batches of more than 2³¹ − 1 tokens */
  constructor({ maxDecodeSequences = 32, maxPrefillChunk = 256 }: SchedulerOptions = {}) {
    this.maxDecodeSequences = positive('maxDecodeSequences', maxDecodeSequences);
    this.maxPrefillChunk = positive('maxPrefillChunk', maxPrefillChunk);
    this.maxBatchSize = 2 * maxPrefillChunk + maxDecodeSequences;
    if (this.maxBatchSize > largestInt32) {
      throw new UsageError(
        `Batches of ${this.maxBatchSize} tokens are too large: maxPrefillChunk and maxDecodeSequences must be less.`,
      );
    }
  }

  /** @returns whether it was taken: not when it has no tokens or more than a chunk, or its id waits already */
  submit(step: Step): boolean {
    const { id, session, tokens } = step;
    if (tokens.length === 0 || tokens.length > this.maxPrefillChunk || this.#ids.has(id)) {
      return false;
    }
    this.#ids.add(id);
    const chunks = this.#chunks.get(session);
    if (chunks) chunks.push(step);
    else if (tokens.length === 1) this.#decodes.push(step);
    else this.#chunks.set(session, [step]);
    return true;
  }

  /** Whether the step waits still. */
  pending(id: number): boolean {
    return this.#ids.has(id);
  }

  /** Forgets a step that waits; nothing happens when it doesn't. */
  cancel(id: number): void {
    if (!this.#ids.delete(id)) return;
    this.#decodes = this.#decodes.filter((step) => step.id !== id);
    for (const [session, chunks] of this.#chunks) {
      this.#keep(
        session,
        chunks.filter((step) => step.id !== id),
      );
    }
  }

  /** Forgets all steps. */
  clear(): void {
    this.#ids.clear();
    this.#decodes = [];
    this.#chunks.clear();
  }

  /** Takes the steps of the next batch, those of single tokens first; none when none wait. */
  getWork(): Step[] {
    const batch = this.#decodes.splice(0, this.maxDecodeSequences);
    const held = new Set(this.#decodes.map(({ session }) => session));
    let room = this.maxBatchSize - batch.length;
    let taken: number;
    do {
      taken = 0;
      for (const [session, chunks] of [...this.#chunks]) {
        const [next, ...later] = chunks;
        if (next.tokens.length > room || held.has(session)) continue;
        batch.push(next);
        room -= next.tokens.length;
        taken++;
        // To the end of the line.
        this.#chunks.delete(session);
        this.#keep(session, later);
      }
    } while (taken > 0);
    for (const { id } of batch) this.#ids.delete(id);
    return batch;
  }

  #keep(session: number, chunks: Step[]): void {
    if (chunks.length > 0) this.#chunks.set(session, chunks);
    else this.#chunks.delete(session);
  }
}

function positive(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value;
  throw new UsageError(`${name} must be an integer of 1 or more, not ${String(value)}.`);
}
