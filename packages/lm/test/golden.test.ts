/** The families against transformers, on tiny checkpoints. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { GrowingCache } from '@mlx-runners/lm';
import { afterAll, describe, expect, it } from 'vitest';
import { goldenDecoder } from './golden-decoder.js';

const names = ['tiny_llama3', 'tiny_llama_tied', 'tiny_qwen2', 'tiny_qwen3', 'tiny_gemma3'];

describe.each(names)('%s', (name) => {
  const { decoder, golden } = goldenDecoder(name);
  afterAll(() => decoder.dispose());

  /** The largest error relative to the range of the expected values. */
  async function error(actual: MxArray, expected: MxArray): Promise<number> {
    const range = expected.max().subtract(expected.min());
    return actual.subtract(expected).abs().max().divide(range).item();
  }

  it.each([
    ['ids', 'logits'],
    ['ids_long', 'logits_long'],
    ['ids_batch', 'logits_batch'],
  ])('gives the logits of %s, at once and in pieces', async (ids, logits) => {
    const [batch, length] = golden(ids).shape;
    const expected = golden(logits).reshape([batch, length, -1]);
    for (const piece of [length, 7, 1]) {
      using cache = new GrowingCache(decoder.layouts);
      const parts: MxArray[] = [];
      for (let start = 0; start < length; start += piece) {
        const end = Math.min(start + piece, length);
        const part = golden(ids).slice([0, start], [batch, end]);
        parts.push(decoder.forward({ ids: part, cache }).logits);
      }
      expect(await error(mx.concatenate(parts, 1), expected)).toBeLessThan(1e-4);
    }
  });

  it('continues greedily as the reference does', async () => {
    using cache = new GrowingCache(decoder.layouts);
    const ids: number[] = [];
    let next = golden('ids');
    for (let i = 0; i < golden('greedy16').size; i++) {
      const { logits } = decoder.forward({ ids: next, cache, logitsToKeep: 'last' });
      next = logits.argmax(-1).astype('int32');
      ids.push(await next.item());
    }
    expect(ids).toEqual(Array.from(await golden('greedy16').data(), Number));
  });
});
