/** What decoder layers remember of the tokens so far. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { Position } from './decoder.js';

/** What a layer needs of its cache. */
export interface LayerLayout {
  kvHeads: number;
  /** Size of a key or value. */
  headSize: number;
  /** How many keys a query sees, its own included; all of them unless given. */
  window?: number;
}

export interface AttendOptions {
  /** Factor on q · kᵀ. */
  scale: number;
  /** Scores become softcap · tanh(score / softcap). */
  softcap?: number;
}

export interface LayerCache {
  /**
   * Adds the tokens' keys and values, and attends to all that their queries may see.
   *
   * @param q [B, heads, T, size], rotated, as is k [B, kvHeads, T, size]; v likewise
   * @returns [B, heads, T, size]
   */
  attend(q: MxArray, k: MxArray, v: MxArray, options: AttendOptions): MxArray;
}

export interface DecoderCache {
  /** Tokens in it, which is the position of the next; or each sequence's, int32 [B]. */
  readonly length: Position;
  readonly layers: readonly LayerCache[];
}

/** Keys and values [B, kvHeads, length, size] that grow by concatenation. */
class GrowingLayer implements LayerCache {
  readonly #window: number | undefined;
  #keys: MxArray | undefined;
  #values: MxArray | undefined;
  length = 0;

  constructor({ window }: LayerLayout) {
    this.#window = window;
  }

  attend(q: MxArray, k: MxArray, v: MxArray, { scale, softcap = 0 }: AttendOptions): MxArray {
    const keys = joined(this.#keys, k);
    const values = joined(this.#values, v);
    this.#replace(keys, values);
    this.length += k.shape[2];
    const window = this.#window ?? 0;
    return mx.attention(q, keys, values, scale, 'causal', null, null, window, softcap);
  }

  /** Of a window only what a later query may see is kept. */
  #replace(keys: MxArray, values: MxArray): void {
    const before = [this.#keys, this.#values];
    this.#keys = mx.keep(this.#seenLater(keys));
    this.#values = mx.keep(this.#seenLater(values));
    for (const array of before) array?.dispose();
  }

  #seenLater(x: MxArray): MxArray {
    const [batch, heads, length, size] = x.shape;
    const kept = this.#window === undefined ? length : this.#window - 1;
    if (length <= kept) return x;
    return mx.contiguous(x.slice([0, 0, length - kept, 0], [batch, heads, length, size]));
  }

  dispose(): void {
    this.#keys?.dispose();
    this.#values?.dispose();
  }
}

function joined(past: MxArray | undefined, added: MxArray): MxArray {
  return past ? mx.concatenate([past, added], 2) : added;
}

/** A cache for eager calls: any number of tokens, all sequences of one length. */
export class GrowingCache implements DecoderCache {
  readonly layers: readonly GrowingLayer[];

  constructor(layouts: readonly LayerLayout[]) {
    this.layers = layouts.map((layout) => new GrowingLayer(layout));
  }

  get length(): number {
    return this.layers[0].length;
  }

  dispose(): void {
    for (const layer of this.layers) layer.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
