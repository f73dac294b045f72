/** Keys and values in the states of a session. */
import { mx, UsageError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { Arrays, Method } from '@mlx-runners/program';
import type { AttendOptions, DecoderCache, LayerCache, LayerLayout } from './kv-cache.js';

export interface InGraphOptions {
  contextLength: number;
  useCustomSdpa?: boolean;
  useCustomKvCache?: boolean;
}

export interface InGraphRowOptions extends InGraphOptions {
  /** The most tokens that a call writes. */
  chunk: number;
}

/** Rows of a layer's states: the whole context, or a ring of the window and what one call writes besides. */
export function inGraphRows(
  { window }: LayerLayout,
  { contextLength, useCustomKvCache = true, chunk }: InGraphRowOptions,
): number {
  if (window === undefined || !useCustomKvCache) return contextLength;
  return Math.min(contextLength, window + chunk - 1);
}

export function inGraphStates(
  layouts: readonly LayerLayout[],
  options: InGraphRowOptions & { dtype: Dtype },
): NonNullable<Method['states']> {
  const states = layouts.flatMap((layout, layer) => {
    const shape = [1, layout.kvHeads, inGraphRows(layout, options), layout.headSize];
    return ['keys', 'values'].map(
      (part) => [`cache.${layer}.${part}`, { dtype: options.dtype, shape }] as const,
    );
  });
  return Object.fromEntries(states);
}

export class InGraphCache implements DecoderCache {
  readonly layers: readonly LayerCache[];
  readonly length: number;

  constructor(
    layouts: readonly LayerLayout[],
    states: Arrays,
    past: number,
    options: InGraphOptions,
  ) {
    this.length = past;
    this.layers = layouts.map(
      (layout, layer) => new InGraphLayer(layout, `cache.${layer}`, states, past, options),
    );
  }
}

class InGraphLayer implements LayerCache {
  readonly #window: number;
  readonly #name: string;
  readonly #states: Arrays;
  readonly #past: number;
  readonly #options: InGraphOptions;

  constructor(
    { window = 0 }: LayerLayout,
    name: string,
    states: Arrays,
    past: number,
    options: InGraphOptions,
  ) {
    this.#window = window;
    this.#name = name;
    this.#states = states;
    this.#past = past;
    this.#options = options;
  }

  attend(q: MxArray, k: MxArray, v: MxArray, options: AttendOptions): MxArray {
    const keys = this.#written('keys', k);
    const values = this.#written('values', v);
    const { useCustomSdpa = true } = this.#options;
    if (!useCustomSdpa) return this.#masked(q, keys, values, options);
    const { scale, softcap = 0 } = options;
    return mx.kvCacheAttention(q, keys, values, this.#past, scale, this.#window, softcap);
  }

  /** The state with the new rows. */
  #written(part: string, x: MxArray): MxArray {
    const name = `${this.#name}.${part}`;
    const { useCustomKvCache = true } = this.#options;
    const state = this.#states[name];
    this.#states[name] = useCustomKvCache
      ? mx.kvCacheUpdate(state, x, this.#past)
      : mx.sliceUpdate(
          state,
          x,
          [0, 0, this.#past, 0],
          [1, x.shape[1], this.#past + x.shape[2], x.shape[3]],
        );
    return this.#states[name];
  }

  /** MLX's attention over all rows, of which a mask hides those that no query may see. */
  #masked(q: MxArray, keys: MxArray, values: MxArray, { scale, softcap }: AttendOptions): MxArray {
    if (softcap !== undefined) {
      throw new UsageError("MLX's attention has no softcap: leave custom attention on.");
    }
    const end = this.#past + q.shape[2];
    const queries = mx.arange(this.#past, end, 1, 'int32').reshape([-1, 1]);
    const positions = this.#positions(keys.shape[2], end);
    const seen = positions.greaterEqual(0).logicalAnd(positions.lessEqual(queries));
    const mask =
      this.#window === 0
        ? seen
        : seen.logicalAnd(positions.greater(queries.subtract(this.#window)));
    return mx.scaledDotProductAttention(q, keys, values, scale, 'array', mask);
  }

  /** The position that each row holds, int32 [rows]: the last one before `end` that belongs there, below 0 for none. */
  #positions(rows: number, end: number): MxArray {
    const before = mx
      .arange(0, rows, 1, 'int32')
      .subtract(end - 1)
      .negative();
    return before
      .remainder(rows)
      .subtract(end - 1)
      .negative();
  }
}
