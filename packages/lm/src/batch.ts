/** Many texts at once: each step of the model computes tokens of all of them (continuous batching). */
import { AbortedError, BusyError, DisposedError, throwIfAborted } from '@mlx-runners/mlx-core';
import { checkedBatchOptions, type BatchOptions } from './batch-options.js';
import { BatchRequest } from './batch-request.js';
import { BatchSchedule, type BatchStep } from './batch-schedule.js';
import {
  checkPrompt,
  generationPlan,
  RunningGeneration,
  type GenerateOptions,
  type GenerationModel,
  type GenerationPlan,
  type TextEnd,
  type TextPart,
  type TextStream,
} from './generation.js';
import type { Prompt } from './language-model.js';
import type { StepInput, StepModel } from './step-model.js';

/** What a batch needs to know of its language model. */
export interface BatchModel extends GenerationModel {
  encode(prompt: Prompt): number[];
}

/** What a batch is at. */
export interface BatchStatus {
  /** Texts that are being computed. */
  running: number;
  /** Texts that wait for room. */
  waiting: number;
  /** Texts that have ended, whose tokens are kept for prompts that begin as they do. */
  kept: number;
  cells: number;
  /** Those that hold no token, not even of kept texts. */
  freeCells: number;
}

export class BatchEngine {
  readonly #model: BatchModel;
  readonly #steps: StepModel;
  readonly #maxRequests: number;
  readonly #schedule: BatchSchedule;
  readonly #disposal = new AbortController();
  /** The steps under way. */
  #work: Promise<void> | undefined;

  /**
   * See `LanguageModel.batch`.
   *
   * @param steps disposed with it
   * @throws UsageError for an option that there is not, or that makes no sense
   */
  constructor(model: BatchModel, steps: StepModel, options: BatchOptions = {}) {
    const checked = checkedBatchOptions(options, steps.maxBatchSize);
    this.#model = model;
    this.#steps = steps;
    this.#maxRequests = checked.maxRequests ?? Infinity;
    this.#schedule = new BatchSchedule(steps.cache, checked);
  }

  /** The most tokens of a text with its prompt. */
  get contextLength(): number {
    return Math.min(this.#steps.contextLength, this.#steps.cache.cells);
  }

  get status(): BatchStatus {
    const { cells, freeCells } = this.#steps.cache;
    const { running, waiting, kept } = this.#schedule;
    return { running, waiting, kept, cells, freeCells };
  }

  /**
   * Continues a prompt as `LanguageModel.generate`, together with others. It takes its place in the line when it is
   * first iterated over or its `result()` is awaited.
   *
   * @throws at once UsageError for options that make no sense, and for prompts that never fit; DisposedError; from
   *   the iteration or `result()` AbortedError when the signal fires, BusyError when there are as many as may be
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): TextStream {
    this.#checkOpen();
    const ids = this.#model.encode(prompt);
    const continued = typeof prompt === 'string' ? ids.at(-1) : undefined;
    const plan = generationPlan(this.#model, options, continued);
    checkPrompt(ids, this.contextLength);
    return new RunningGeneration(this.#run(ids, plan));
  }

  async *#run(ids: readonly number[], plan: GenerationPlan): AsyncGenerator<TextPart, TextEnd> {
    this.#checkOpen();
    const { signal } = plan;
    throwIfAborted(signal);
    const request = new BatchRequest(ids, plan, this.contextLength);
    if (!request.parts.ended) this.#enter(request);
    const abort = (): void => {
      this.#fail(request, new AbortedError(undefined, { cause: signal?.reason }));
    };
    signal?.addEventListener('abort', abort);
    try {
      return yield* request.parts.read();
    } finally {
      signal?.removeEventListener('abort', abort);
      // Whoever leaves early wants no more of it.
      this.#fail(request, new AbortedError());
    }
  }

  #enter(request: BatchRequest): void {
    const { running, waiting } = this.#schedule;
    if (running + waiting >= this.#maxRequests) {
      throw new BusyError(
        `${running + waiting} texts are under way, as many as may be: try again later.`,
      );
    }
    request.start();
    this.#schedule.add(request);
    this.#work ??= this.#runSteps().finally(() => (this.#work = undefined));
  }

  #fail(request: BatchRequest, reason: unknown): void {
    request.parts.fail(reason);
    this.#schedule.remove(request);
  }

  #failAll(reason: unknown): void {
    for (const request of this.#schedule.requests()) this.#fail(request, reason);
  }

  async #runSteps(): Promise<void> {
    // Those that come at the same time share the first step.
    await Promise.resolve();
    try {
      while (this.#schedule.requests().length > 0) await this.#runStep();
    } catch (reason) {
      this.#failAll(reason);
    }
  }

  async #runStep(): Promise<void> {
    const steps = this.#schedule.begin();
    let logits: Map<BatchStep, Float32Array>;
    try {
      logits = await this.#compute(steps);
    } catch (reason) {
      for (const { request } of steps) this.#fail(request, reason);
      return;
    } finally {
      this.#schedule.computed();
    }
    for (const step of steps) {
      if (step.request.parts.ended) continue;
      try {
        this.#advance(step, logits.get(step));
      } catch (reason) {
        this.#fail(step.request, reason);
      }
    }
  }

  /** @returns the logits of steps after which a token is drawn */
  async #compute(steps: readonly BatchStep[]): Promise<Map<BatchStep, Float32Array>> {
    if (steps.length === 0) return new Map();
    const { input, drawing } = stepInput(steps);
    const rows = await this.#steps.step(input, this.#disposal.signal);
    return new Map(drawing.map((step, i) => [step, rows[i]]));
  }

  #advance({ request, start, tokens }: BatchStep, logits: Float32Array | undefined): void {
    request.advance(start + tokens.length);
    if (!logits) return;
    request.draw(logits);
    if (request.parts.ended) this.#schedule.finish(request);
    else this.#schedule.submit(request);
  }

  #checkOpen(): void {
    if (this.#disposal.signal.aborted) throw new DisposedError('The batch was disposed.');
  }

  /** Frees the cache. Twice is fine; texts that have not ended fail with a DisposedError. */
  async dispose(): Promise<void> {
    this.#disposal.abort();
    this.#failAll(new DisposedError('The batch was disposed before the text had ended.'));
    await this.#work;
    this.#steps.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

function stepInput(steps: readonly BatchStep[]): { input: StepInput; drawing: BatchStep[] } {
  const tokens: number[] = [];
  const positions: number[] = [];
  const sequences: number[] = [];
  const rows: number[] = [];
  const drawing: BatchStep[] = [];
  for (const step of steps) {
    for (const [i, token] of step.tokens.entries()) {
      tokens.push(token);
      positions.push(step.start + i);
      sequences.push(step.session);
    }
    if (step.start + step.tokens.length < step.request.tokens.length) continue;
    drawing.push(step);
    rows.push(tokens.length - 1);
  }
  // There are no steps without logits.
  if (rows.length === 0) rows.push(0);
  const input = {
    tokens: Int32Array.from(tokens),
    positions: Int32Array.from(positions),
    sequences: Int32Array.from(sequences),
    rows: Int32Array.from(rows),
  };
  return { input, drawing };
}
