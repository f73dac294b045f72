import { describe, expect, it } from 'vitest';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { attention, mergeHeads, splitHeads } from '@mlx-runners/nn';

function seeded(shape: number[], seed: number): MxArray {
  return mx.randomNormal(mx.randomKey(seed), shape);
}

/** softmax(q · kᵀ · scale + mask) · v, written out. */
function composed(q: MxArray, k: MxArray, v: MxArray, scale: number, mask?: MxArray): MxArray {
  const scores = q.matmul(k.swapaxes(-1, -2)).multiply(scale);
  return (mask ? scores.add(mask) : scores).softmax(-1).matmul(v);
}

function expectClose(actual: MxArray, expected: MxArray): void {
  expect(actual.shape).toEqual(expected.shape);
  expect(actual.subtract(expected).abs().max().itemSync()).toBeLessThan(2e-5);
}

describe('attention', () => {
  it('splits and merges heads without changing elements', () => {
    const x = seeded([2, 5, 12], 1);
    const heads = splitHeads(x, 3);
    expect(heads.shape).toEqual([2, 3, 5, 4]);
    expect(mergeHeads(heads).dataSync()).toEqual(x.dataSync());
  });

  it('equals the formula, with a scale of its own or the default', () => {
    const [q, k, v] = [seeded([2, 3, 5, 4], 2), seeded([2, 3, 7, 4], 3), seeded([2, 3, 7, 4], 4)];
    expectClose(attention(q, k, v), composed(q, k, v, 0.5));
    expectClose(attention(q, k, v, { scale: 0.1 }), composed(q, k, v, 0.1));
  });

  it('lets a query see the keys up to its place, counted from the end', () => {
    const [q, k, v] = [seeded([1, 2, 3, 4], 5), seeded([1, 2, 6, 4], 6), seeded([1, 2, 6, 4], 7)];
    const mask = mx.array([
      [0, 0, 0, 0, -1e9, -1e9],
      [0, 0, 0, 0, 0, -1e9],
      [0, 0, 0, 0, 0, 0],
    ]);
    expectClose(attention(q, k, v, { causal: true }), composed(q, k, v, 0.5, mask));
  });

  it('takes masks of floats', () => {
    const [q, k, v] = [seeded([1, 2, 3, 4], 8), seeded([1, 2, 5, 4], 9), seeded([1, 2, 5, 4], 10)];
    const mask = seeded([3, 5], 11);
    expectClose(attention(q, k, v, { mask }), composed(q, k, v, 0.5, mask));
  });
});
