/** Which texts of a batch are in the cache, and what of them is computed next. */
import type { CheckedBatchOptions } from './batch-options.js';
import type { BatchRequest } from './batch-request.js';
import { Scheduler, type SessionStep } from './scheduler.js';
import { isBeingRead, KeptSequences, longestPrefix, type Prefix } from './shared-prefixes.js';
import { MAX_SEQUENCES, type CellSequences } from './step-model.js';

/** Tokens of a text that are fed at once. */
export interface BatchStep extends SessionStep {
  request: BatchRequest;
  /** Position of the first. */
  start: number;
}

// A text is let in where it has room to grow by so many tokens, so that it isn't put out again at once.
const spareCells = 16;

/**
 * Texts wait in the order in which they came, until the cache has room for their prompts. Where it has none for what
 * those inside come to, kept ones make room, and then the texts that were let in last: they wait again, before all
 * others, and are read once more. So the oldest one always gets on.
 *
 * The cache is changed between steps only.
 */
export class BatchSchedule {
  readonly #cache: CellSequences;
  readonly #maxSequences: number;
  readonly #kept: KeptSequences;
  readonly #scheduler: Scheduler<BatchStep>;
  #waiting: BatchRequest[] = [];
  /** Those in the cache, the oldest first, and the ids of the steps that they wait for. */
  readonly #running = new Map<BatchRequest, number[]>();
  #lastId = 0;
  #isComputing = false;
  /** Sequences to end after the step. */
  #leftOver: number[] = [];

  constructor(
    cache: CellSequences,
    { maxSequences, prefillChunk, keptSequences }: CheckedBatchOptions,
  ) {
    this.#cache = cache;
    this.#maxSequences = maxSequences;
    this.#kept = new KeptSequences(cache, keptSequences);
    this.#scheduler = new Scheduler({
      maxDecodeSequences: maxSequences,
      maxPrefillChunk: prefillChunk,
    });
  }

  get running(): number {
    return this.#running.size;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get kept(): number {
    return this.#kept.count;
  }

  /** All texts that have not ended. */
  requests(): BatchRequest[] {
    return [...this.#running.keys(), ...this.#waiting];
  }

  add(request: BatchRequest): void {
    this.#waiting.push(request);
  }

  /** Forgets a text that was stopped or has failed; nothing happens when it has ended. */
  remove(request: BatchRequest): void {
    this.#waiting = this.#waiting.filter((each) => each !== request);
    if (!this.#running.has(request)) return;
    this.#leftOver.push(this.#takeOut(request));
    if (!this.#isComputing) this.#closeLeftOver();
  }

  /** Takes a text that has ended out of the cache, which keeps its tokens while it has room. */
  finish(request: BatchRequest): void {
    const tokens = request.tokens.slice(0, request.fed);
    this.#kept.keep(this.#takeOut(request), tokens);
  }

  /** Takes the steps to compute next. The cache stays as it is until `computed` is called. */
  begin(): BatchStep[] {
    this.#admitAll();
    const steps = this.#withRoom(this.#scheduler.getWork());
    this.#isComputing = true;
    return steps;
  }

  /** The steps have been computed, or have failed. */
  computed(): void {
    this.#isComputing = false;
    this.#closeLeftOver();
  }

  /** Queues what a running text has not fed yet. */
  submit(request: BatchRequest): void {
    const { tokens, fed, sequence: session } = request;
    const { maxPrefillChunk } = this.#scheduler;
    const ids: number[] = [];
    for (let start = fed; start < tokens.length; start += maxPrefillChunk) {
      const id = ++this.#lastId;
      const piece = tokens.slice(start, start + maxPrefillChunk);
      this.#scheduler.submit({ id, session, tokens: piece, request, start });
      ids.push(id);
    }
    this.#running.set(request, ids);
  }

  /** Those that will find what they begin with in the cache once another one has read it are passed over. */
  #admitAll(): void {
    for (const request of this.#waiting) {
      if (this.#running.size === this.#maxSequences) return;
      const { length } = this.#prefixOf(request);
      if (isBeingRead(request.tokens, length, this.#running.keys())) continue;
      if (!this.#admit(request)) return;
    }
  }

  /** @returns false when there is no room */
  #admit(request: BatchRequest): boolean {
    let prefix = this.#prefixOf(request);
    while (!this.#hasRoom(request, prefix.length)) {
      if (!this.#kept.evict(prefix.source)) return false;
      prefix = this.#prefixOf(request);
    }
    this.#waiting = this.#waiting.filter((each) => each !== request);
    try {
      request.enter(this.#open(prefix), prefix.length);
      this.submit(request);
    } catch (reason) {
      request.parts.fail(reason);
    }
    return true;
  }

  #prefixOf({ tokens }: BatchRequest): Prefix {
    return longestPrefix(tokens, [...this.#running.keys(), ...this.#kept]);
  }

  #open({ source, length }: Prefix): number {
    if (!source) return this.#cache.open();
    this.#kept.touch(source);
    return this.#cache.fork(source.sequence, length);
  }

  /** A text that is alone has room: none is longer than the cache. */
  #hasRoom(request: BatchRequest, shared: number): boolean {
    const others = this.#running.size + this.#kept.count;
    if (others === 0) return true;
    const own = request.tokens.length - shared + spareFor(request);
    const needed = [...this.#running.keys()].reduce(
      (sum, each) => sum + each.tokens.length - each.fed + spareFor(each),
      own,
    );
    return others < MAX_SEQUENCES && needed <= this.#cache.freeCells;
  }

  /** Makes room for steps, or leaves out those of texts that have to make it. */
  #withRoom(steps: BatchStep[]): BatchStep[] {
    let left = steps;
    while (tokenCount(left) > this.#cache.freeCells) {
      if (this.#kept.evict()) continue;
      const youngest = [...this.#running.keys()].at(-1);
      if (!youngest || this.#running.size === 1) break;
      this.#cache.close(this.#takeOut(youngest));
      this.#waiting.unshift(youngest);
      left = left.filter(({ request }) => request !== youngest);
    }
    return left;
  }

  /** @returns the sequence that it had */
  #takeOut(request: BatchRequest): number {
    for (const id of this.#running.get(request) ?? []) this.#scheduler.cancel(id);
    this.#running.delete(request);
    return request.leave();
  }

  #closeLeftOver(): void {
    for (const sequence of this.#leftOver) this.#cache.close(sequence);
    this.#leftOver = [];
  }
}

function spareFor({ growth }: BatchRequest): number {
  return Math.min(growth, spareCells);
}

function tokenCount(steps: readonly BatchStep[]): number {
  return steps.reduce((sum, { tokens }) => sum + tokens.length, 0);
}
