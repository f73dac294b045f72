/** A language model whose logits depend on all tokens before, with a cache of cells in plain JavaScript. */
import { throwIfAborted, UsageError } from '@mlx-runners/mlx-core/errors';
import {
  BatchEngine,
  Completion,
  Sampler,
  type BatchModel,
  type BatchOptions,
  type CellSequences,
  type SamplingOptions,
  type StepInput,
  type StepModel,
  type TextStream,
} from '@mlx-runners/lm';
import { smallTokenizer } from './small-tokenizer.js';

const tokenizer = smallTokenizer();
const eot = 5;

export const toyModel: BatchModel = {
  tokenizer,
  stopIds: new Set([eot]),
  samplingDefaults: {},
  encode: (prompt) =>
    typeof prompt === 'string' ? tokenizer.encode(prompt) : ([...prompt] as number[]),
};

/** Logits from −4 to 4 that any change of the tokens changes. */
function toyLogits(tokens: readonly number[]): Float32Array {
  let state = 2166136261;
  for (const token of tokens) state = Math.imul(state ^ (token + 1), 16777619);
  return Float32Array.from({ length: tokenizer.vocabSize }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return ((state >>> 0) / 2 ** 32) * 8 - 4;
  });
}

interface AloneOptions extends SamplingOptions {
  maxTokens: number;
  ignoreStopIds?: boolean;
}

/** A text that is computed alone. */
export function alone(
  prompt: readonly number[],
  { maxTokens, ignoreStopIds = false, ...sampling }: AloneOptions,
): { text: string; ids: number[] } {
  const sampler = new Sampler(sampling);
  const stopIds = ignoreStopIds ? new Set<number>() : toyModel.stopIds;
  const completion = new Completion({ tokenizer, stopIds, maxTokens });
  const ids: number[] = [];
  let text = '';
  while (!completion.finish) {
    const { id } = sampler.sample(toyLogits([...prompt, ...ids]));
    text += completion.push(id);
    if (completion.tokens > ids.length) ids.push(id);
  }
  return { text, ids };
}

/** A prompt that no other one begins as. */
export function toyPrompt(seed: number, length: number): number[] {
  return Array.from({ length }, (_, i) => 8 + ((seed * 31 + i * 7) % 250));
}

export async function idsOf(stream: TextStream): Promise<number[]> {
  return (await stream.result()).tokens.map(({ id }) => id);
}

/** A batch over the toy model. */
export function toyBatch(
  { cells = 1000, ...options }: BatchOptions & { cells?: number } = {},
  contextLength?: number,
) {
  const steps = new ToySteps(cells, contextLength);
  return { steps, engine: new BatchEngine(toyModel, steps, options) };
}

interface Cell {
  token: number;
  owners: number;
}

class ToyCache implements CellSequences {
  readonly cells: number;
  readonly sequences = new Map<number, Cell[]>();
  #used = 0;
  #lastId = 0;
  isInUse = false;

  constructor(cells: number) {
    this.cells = cells;
  }

  get freeCells(): number {
    return this.cells - this.#used;
  }

  open(): number {
    if (this.isInUse) throw new UsageError('The cache is in use.');
    if (this.sequences.size === 63) throw new UsageError('There are 63 sequences already.');
    this.sequences.set(++this.#lastId, []);
    return this.#lastId;
  }

  fork(sequence: number, length: number): number {
    const shared = this.cellsOf(sequence).slice(0, length);
    if (shared.length < length) throw new UsageError('So much can not be shared.');
    const fork = this.open();
    for (const cell of shared) cell.owners++;
    this.sequences.set(fork, shared);
    return fork;
  }

  close(sequence: number): void {
    if (this.isInUse) throw new UsageError('The cache is in use.');
    for (const cell of this.cellsOf(sequence)) if (--cell.owners === 0) this.#used--;
    this.sequences.delete(sequence);
  }

  add(sequence: number, token: number): void {
    this.cellsOf(sequence).push({ token, owners: 1 });
    this.#used++;
  }

  cellsOf(sequence: number): Cell[] {
    const cells = this.sequences.get(sequence);
    if (!cells) throw new UsageError(`There is no sequence ${sequence}.`);
    return cells;
  }
}

class ToySteps implements StepModel {
  readonly cache: ToyCache;
  readonly contextLength: number;
  readonly maxBatchSize = 600;
  /** The number of tokens of each step. */
  readonly sizes: number[] = [];
  isDisposed = false;
  /** Called in each step; what it throws fails the step. */
  during: (() => void) | undefined;

  constructor(cells: number, contextLength = 1000) {
    this.cache = new ToyCache(cells);
    this.contextLength = contextLength;
  }

  async step(input: StepInput, signal: AbortSignal): Promise<Float32Array[]> {
    const { tokens, positions, sequences, rows } = input;
    const { cache } = this;
    if (tokens.length > cache.freeCells) throw new UsageError('The cache has too few free cells.');
    if (tokens.length > this.maxBatchSize) throw new UsageError('The step is too large.');
    cache.isInUse = true;
    try {
      await new Promise((resolve) => setImmediate(resolve));
      this.during?.();
      throwIfAborted(signal);
    } finally {
      cache.isInUse = false;
    }
    this.sizes.push(tokens.length);
    const before: Cell[][] = [];
    for (const [i, token] of tokens.entries()) {
      const cells = cache.cellsOf(sequences[i]);
      if (cells.length !== positions[i]) throw new UsageError('A position is wrong.');
      cache.add(sequences[i], token);
      before.push([...cells]);
    }
    return Array.from(rows, (row) => toyLogits(before[row].map(({ token }) => token)));
  }

  dispose(): void {
    this.isDisposed = true;
  }
}
