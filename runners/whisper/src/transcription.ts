/** A transcription under way, and what callers do with it. */
import { AbortedError } from '@mlx-runners/mlx-core/errors';
import type { Segment, Transcript } from '@mlx-runners/speech';

/**
 * A transcription under way: iterate over it for segments as they come, or await `result()`, as
 * often as wanted and at the same time. It is computed once, from its first use on; every iteration
 * gives all segments, and a failure comes to everyone. Leaving a loop early stops the work, unless
 * someone else still waits for it.
 */
export interface Transcription extends AsyncIterable<Segment> {
  /** The whole transcript, once all audio is done. */
  result(): Promise<Transcript>;
}

/** What is known of a recording besides its segments. */
export interface RecordingInfo {
  /** Seconds. */
  duration: number;
  /** The language given, or detected in the first window with speech; null before and without one. */
  language: string | null;
}

export class RunningTranscription implements Transcription {
  readonly #work: AsyncGenerator<Segment, RecordingInfo>;
  readonly #segments: Segment[] = [];
  #info: RecordingInfo | undefined;
  #failure: { reason: unknown } | undefined;
  /** The step that all wait for who have seen all segments so far. */
  #step: Promise<void> | undefined;
  #listeners = 0;

  constructor(work: AsyncGenerator<Segment, RecordingInfo>) {
    this.#work = work;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Segment, void, void> {
    this.#listeners += 1;
    try {
      for (let i = 0; ; i++) {
        if (i === this.#segments.length) await this.#advance();
        if (i === this.#segments.length) return;
        yield this.#segments[i];
      }
    } finally {
      this.#listeners -= 1;
      if (this.#listeners === 0) await this.#stop();
    }
  }

  async result(): Promise<Transcript> {
    const segments: Segment[] = [];
    for await (const segment of this) segments.push(segment);
    const text = segments.map((segment) => segment.text).join('');
    return { text: text.trim(), ...this.#info!, segments };
  }

  /** Waits for one more segment, or the end. */
  async #advance(): Promise<void> {
    this.#step ??= this.#next().finally(() => (this.#step = undefined));
    await this.#step;
  }

  async #next(): Promise<void> {
    if (this.#failure) throw this.#failure.reason;
    if (this.#info) return;
    try {
      const { done, value } = await this.#work.next();
      if (done) this.#info = value;
      else this.#segments.push(value);
    } catch (reason) {
      this.#failure = { reason };
      throw reason;
    }
  }

  /** Frees what the work holds; nothing to do when it has ended. */
  async #stop(): Promise<void> {
    if (this.#info || this.#failure) return;
    const reason = new AbortedError(
      'The transcription was stopped by leaving its loop early: start another one.',
    );
    this.#failure = { reason };
    await this.#work.return(undefined as never);
  }
}
