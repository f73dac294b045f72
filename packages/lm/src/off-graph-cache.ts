/** Layers of which the graph has one op each; keys and values are in the cache that a session's call is given. */
import { mx } from '@mlx-runners/mlx-core';
import type { Position } from './decoder.js';
import type { DecoderCache, LayerCache, LayerLayout } from './kv-cache.js';

export class OffGraphCache implements DecoderCache {
  readonly layers: readonly LayerCache[];
  readonly length: Position;

  /** @param length tokens in it, or each sequence's position int32 [B] of a batch of single tokens */
  constructor(layouts: readonly LayerLayout[], length: Position) {
    this.length = length;
    this.layers = layouts.map(({ window = 0 }, layer) => ({
      attend: (q, k, v, { scale, softcap = 0 }) =>
        mx.updateAndAttend(q, k, v, length, layer, scale, window, softcap),
    }));
  }
}
