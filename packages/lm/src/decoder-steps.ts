/** Steps of many sequences that a decoder's program computes over a cell cache. */
import { CellCache, mx, ShapeError, type KvStorage } from '@mlx-runners/mlx-core';
import type { Session } from '@mlx-runners/program';
import { cacheLayers, type DecoderConstants } from './decoder-program.js';
import type { StepInput, StepModel } from './step-model.js';

export interface StepOptions {
  /** Tokens of all sequences together. */
  cells: number;
  /** How keys and values are kept; float32 unless given. */
  storage?: KvStorage;
}

export class DecoderSteps implements StepModel {
  readonly cache: CellCache;
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly #session: Promise<Session>;

  /** @internal Use `DecoderModel.steps`. */
  constructor(
    session: Promise<Session>,
    constants: DecoderConstants & { maxBatchSize: number },
    { cells, storage }: StepOptions,
  ) {
    this.cache = new CellCache({ layers: cacheLayers(constants), cells, storage });
    this.contextLength = constants.contextLength;
    this.maxBatchSize = constants.maxBatchSize;
    this.#session = session;
    // Whoever makes a step hears of it.
    session.catch(() => undefined);
  }

  async step(input: StepInput, signal: AbortSignal): Promise<Float32Array[]> {
    const { tokens, sequences } = input;
    using ids = mx.array(tokens, [tokens.length, 1]);
    using positions = mx.array(input.positions);
    using rows = mx.array(input.rows);
    const { cache } = this;
    const inputs = { ids, positions, rows };
    const session = await this.#session;
    const { outputs } = await session.run('step', inputs, { cache, sequences, signal });
    using logits = outputs.logits;
    const [count, vocabulary] = logits.shape;
    const data = await logits.data();
    if (!(data instanceof Float32Array))
      throw new ShapeError('Logits must be floating-point numbers.');
    return Array.from({ length: count }, (_, row) =>
      data.subarray(row * vocabulary, (row + 1) * vocabulary),
    );
  }

  dispose(): void {
    void this.#session.then((session) => session.dispose()).catch(() => undefined);
    this.cache.dispose();
  }
}
