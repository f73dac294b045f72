/** Decoding by the network's own code. */
import { mx } from '@mlx-runners/mlx-core';
import type { Logits } from './logits.js';
import type { DecoderCache, WhisperDecoder } from './model.js';
import { logitsOf, type Decoding } from './network.js';

export class EagerDecoding implements Decoding {
  readonly #decoder: WhisperDecoder;
  readonly #cache: DecoderCache;

  /** @param cache an empty one, which goes with this */
  constructor(decoder: WhisperDecoder, cache: DecoderCache) {
    this.#decoder = decoder;
    this.#cache = cache;
  }

  async step(ids: readonly (readonly number[])[], positions: readonly number[]): Promise<Logits[]> {
    const length = ids[0].length;
    using logits = mx.tidy(() => {
      const input = mx.array(Int32Array.from(ids.flat()), [ids.length, length]);
      const hidden = this.#decoder.forward(input, this.#cache);
      const wanted =
        positions.length === length ? hidden : hidden.take(mx.array(Int32Array.from(positions)), 1);
      return this.#decoder.logits(wanted).astype('float32');
    });
    return await logitsOf(logits);
  }

  repeat(count: number): Promise<void> {
    mx.tidy(() => {
      this.#cache.repeat(count);
    });
    return Promise.resolve();
  }

  [Symbol.dispose](): void {
    this.#cache[Symbol.dispose]();
  }
}
