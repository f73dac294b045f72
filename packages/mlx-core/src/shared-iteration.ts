/** Work that is done once, for everyone who looks at it. This file loads nothing native. */
import { AbortedError } from './errors.js';

/**
 * Iterate over it for its parts as they come, or await `end()`, as often as wanted and at the same time. The
 * work starts with its first use; every iteration gives all parts, and a failure comes to everyone. Leaving a loop
 * early stops the work, unless someone else still waits for it.
 */
export class SharedIteration<Part, End> implements AsyncIterable<Part> {
  readonly #work: AsyncGenerator<Part, End>;
  readonly #whenStopped: string;
  readonly #parts: Part[] = [];
  #end: { value: End } | undefined;
  #failure: { reason: unknown } | undefined;
  /** The step that all wait for who have seen all parts so far. */
  #step: Promise<void> | undefined;
  #listeners = 0;

  /** @param whenStopped what an AbortedError says to those who come after a loop was left early */
  constructor(work: AsyncGenerator<Part, End>, whenStopped: string) {
    this.#work = work;
    this.#whenStopped = whenStopped;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Part, void, void> {
    this.#listeners += 1;
    try {
      for (let i = 0; ; i++) {
        if (i === this.#parts.length) await this.#advance();
        if (i === this.#parts.length) return;
        yield this.#parts[i];
      }
    } finally {
      this.#listeners -= 1;
      if (this.#listeners === 0) await this.#stop();
    }
  }

  /** All parts, and what the work returned. */
  async end(): Promise<{ parts: readonly Part[]; value: End }> {
    const parts: Part[] = [];
    for await (const part of this) parts.push(part);
    return { parts, value: this.#end!.value };
  }

  /** Waits for one more part, or the end. */
  async #advance(): Promise<void> {
    this.#step ??= this.#next().finally(() => (this.#step = undefined));
    await this.#step;
  }

  async #next(): Promise<void> {
    if (this.#failure) throw this.#failure.reason;
    if (this.#end) return;
    try {
      const { done, value } = await this.#work.next();
      if (done) this.#end = { value };
      else this.#parts.push(value);
    } catch (reason) {
      this.#failure = { reason };
      throw reason;
    }
  }

  /** Frees what the work holds; nothing to do when it has ended. */
  async #stop(): Promise<void> {
    if (this.#end || this.#failure) return;
    this.#failure = { reason: new AbortedError(this.#whenStopped) };
    await this.#work.return(undefined as never);
  }
}
