/** Attention over caches of a fixed number of slots, against a plain loop over the whole history. */
import { mx, ShapeError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, it } from 'vitest';

const [batch, heads, kvHeads, size, valueSize] = [2, 4, 2, 24, 20];
const scale = 0.3;

const normal = (seed: number, shape: readonly number[]): MxArray =>
  mx.randomNormal(mx.randomKey(seed), shape);

interface Layer {
  slots: number;
  window: number;
  softcap: number;
}

interface History {
  q: MxArray;
  k: MxArray;
  v: MxArray;
}

const historyOf = (tokens: number): History => ({
  q: normal(1, [batch, heads, tokens, size]),
  k: normal(2, [batch, kvHeads, tokens, size]),
  v: normal(3, [batch, kvHeads, tokens, valueSize]),
});

/** In double, of one query: [valueSize]. */
function expected(
  { q, k, v }: Record<'q' | 'k' | 'v', Float32Array>,
  tokens: number,
  [b, head, position]: readonly [number, number, number],
  { window, softcap }: Layer,
): number[] {
  const kv = b * kvHeads + Math.floor(head / (heads / kvHeads));
  const begin = window > 0 ? Math.max(0, position - window + 1) : 0;
  const weights: number[] = [];
  for (let key = begin; key <= position; key++) {
    let score = 0;
    for (let d = 0; d < size; d++) {
      score +=
        q[((b * heads + head) * tokens + position) * size + d] * k[(kv * tokens + key) * size + d];
    }
    score *= scale;
    weights.push(Math.exp(softcap > 0 ? softcap * Math.tanh(score / softcap) : score));
  }
  const sum = weights.reduce((a, w) => a + w, 0);
  return Array.from({ length: valueSize }, (_, d) =>
    weights.reduce((a, w, i) => a + (w / sum) * v[(kv * tokens + begin + i) * valueSize + d], 0),
  );
}

/** Feeds steps of so many tokens to a cache; what the queries give, one after the other. */
function attended(history: History, steps: readonly number[], layer: Layer, dtype: Dtype): MxArray {
  const cast = (x: MxArray): MxArray => x.astype(dtype);
  let keys = mx.full([batch, kvHeads, layer.slots, size], 1e3, dtype);
  let values = mx.full([batch, kvHeads, layer.slots, valueSize], 1e3, dtype);
  let position = 0;
  const results: MxArray[] = [];
  for (const step of steps) {
    const part = (x: MxArray): MxArray =>
      cast(x.slice([0, 0, position, 0], [x.shape[0], x.shape[1], position + step, x.shape[3]]));
    keys = mx.kvCacheUpdate(keys, part(history.k), position);
    values = mx.kvCacheUpdate(values, part(history.v), position);
    const { window, softcap } = layer;
    results.push(
      mx.kvCacheAttention(part(history.q), keys, values, position, scale, window, softcap),
    );
    position += step;
  }
  return mx.concatenate(results, 2).astype('float32');
}

const layers: Record<string, Layer> = {
  'all of a flat cache': { slots: 700, window: 0, softcap: 0 },
  'a window of a flat cache': { slots: 700, window: 30, softcap: 0 },
  'a ring as small as can be': { slots: 39, window: 30, softcap: 0 },
  'a long ring with a softcap': { slots: 345, window: 300, softcap: 2 },
};
const steps: Record<string, readonly number[]> = {
  'token by token': Array<number>(90).fill(1),
  // 10 tokens and more are many queries for the kernel, up to 8 are few.
  'a few and many at a time': [10, 7, 8, 1, 10, 9, 10, 3, 10, 10, 2, 10, 1, 1, 8],
  'far around': [...Array<number>(60).fill(10), ...Array<number>(10).fill(7)],
};

describe.each(Object.entries(layers))('attention over %s', (_, layer) => {
  it.each(Object.entries(steps))('%s', async (_, counts) => {
    const tokens = counts.reduce((a, b) => a + b, 0);
    const history = historyOf(tokens);
    const [q, k, v] = await Promise.all(
      [history.q, history.k, history.v].map((x) => x.data() as Promise<Float32Array>),
    );
    const [single, half] = await Promise.all(
      (['float32', 'float16'] as const).map((dtype) =>
        attended(history, counts, layer, dtype).data(),
      ),
    );
    let [worst, worstOfHalf] = [0, 0];
    for (let position = 0; position < tokens; position += tokens > 200 ? 13 : 1) {
      for (let head = 0; head < batch * heads; head++) {
        const place = [Math.floor(head / heads), head % heads, position] as const;
        const start = (head * tokens + position) * valueSize;
        expected({ q, k, v }, tokens, place, layer).forEach((value, d) => {
          worst = Math.max(worst, Math.abs(Number(single[start + d]) - value));
          worstOfHalf = Math.max(worstOfHalf, Math.abs(Number(half[start + d]) - value));
        });
      }
    }
    expect(worst).toBeLessThan(2e-5);
    // By MLX's ops, as off the CPU.
    expect(worstOfHalf).toBeLessThan(2e-2);
  });
});

describe('what does not fit is refused', () => {
  const cache = mx.zeros([1, 2, 4, 8]);
  const x = (tokens: number, width = 8): MxArray => mx.zeros([1, 2, tokens, width]);
  it.each<[string, () => MxArray]>([
    ['more rows than slots', () => mx.kvCacheUpdate(cache, x(5), 0)],
    ['rows of another size', () => mx.kvCacheUpdate(cache, x(1, 4), 0)],
    ['three axes', () => mx.kvCacheUpdate(cache, mx.zeros([2, 1, 8]), 0)],
    ['a negative position', () => mx.kvCacheUpdate(cache, x(1), -1)],
    ['queries from before the start', () => mx.kvCacheAttention(x(1), cache, cache, -1, 1)],
    ['more positions than slots', () => mx.kvCacheAttention(x(2), cache, cache, 3, 1)],
    ['a window that is no longer there', () => mx.kvCacheAttention(x(3), cache, cache, 9, 1, 3)],
    ['a negative window', () => mx.kvCacheAttention(x(1), cache, cache, 0, 1, -1)],
    ['queries of another size', () => mx.kvCacheAttention(x(1, 4), cache, cache, 0, 1)],
    [
      'heads that are no multiple',
      () => mx.kvCacheAttention(mx.zeros([1, 3, 1, 8]), cache, cache, 0, 1),
    ],
  ])('%s', (_, call) => {
    expect(call).toThrow(ShapeError);
  });

  it('at the last positions, too', () => {
    const last = 2 ** 31 - 1;
    expect(mx.kvCacheUpdate(cache, x(1), last).shape).toEqual([1, 2, 4, 8]);
    expect(mx.kvCacheAttention(x(1), cache, cache, last, 1, 4).shape).toEqual([1, 2, 1, 8]);
    expect(() => mx.kvCacheAttention(x(1), cache, cache, last, 1)).toThrow(ShapeError);
  });
});
