import { mx, MxArray, ShapeError } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { opRows } from '../src/call.js';
import { expectArray, thrown, type Nested } from './expectations.js';
import { opCases } from './op-cases.js';
import type { OpCase } from './op-cases/case.js';

type AnyOp = (...args: readonly unknown[]) => MxArray | MxArray[];
const ops = mx as unknown as Record<string, AnyOp>;

function check(name: string, { args, gives, dtype, tolerance }: OpCase): void {
  mx.tidy(() => {
    const result = ops[name](...args());
    const results = Array.isArray(result) ? result : [result];
    const expected = Array.isArray(result) ? (gives as readonly Nested[]) : [gives];
    expect(results).toHaveLength(expected.length);
    results.forEach((array, i) => expectArray(array, expected[i], { dtype, tolerance }));
  });
}

test('every row of the op table has cases, and every case a row', () => {
  expect(Object.keys(opCases).sort()).toEqual(
    opRows()
      .map(({ name }) => name)
      .sort(),
  );
  expect(Object.entries(opCases).filter(([, cases]) => cases.length === 0)).toEqual([]);
});

describe.each(Object.keys(opCases))('%s', (name) => {
  test.each(opCases[name].map((each, i) => [i + 1, each] as const))('case %d', (_, each) =>
    check(name, each),
  );
});

describe('methods', () => {
  test('every op whose first argument is an array is a method of MxArray', () => {
    const own = opRows().filter(({ params }) => params[0].kind === 0);
    const prototype = MxArray.prototype as unknown as Record<string, unknown>;
    expect(own.length).toBeGreaterThan(100);
    expect(own.filter(({ name }) => typeof prototype[name] !== 'function')).toEqual([]);
  });

  test('they pass this on as the first argument', () => {
    using x = mx.array([1, 2, 3, 4]);
    mx.tidy(() => {
      expectArray(x.subtract(1).reshape([2, 2]).transpose(), [
        [0, 2],
        [1, 3],
      ]);
      expect(x.split(2).map((part) => Array.from(part.dataSync(), Number))).toEqual([
        [1, 2],
        [3, 4],
      ]);
    });
  });
});

describe('optional arguments', () => {
  test('left out, undefined and null mean the same', () => {
    mx.tidy(() => {
      const x = mx.array([
        [1, 2],
        [3, 4],
      ]);
      for (const axes of [undefined, null]) {
        expectArray(mx.sum(x, axes), 10);
        expectArray(mx.sum(x, axes, true), [[10]]);
        expectArray(mx.clip(x, axes, 2), [
          [1, 2],
          [2, 2],
        ]);
        expectArray(
          mx.layerNorm(x, axes, axes),
          [
            [-1, 1],
            [-1, 1],
          ],
          { tolerance: 1e-4 },
        );
      }
      const untyped = ops.arange(0, 2, null, null) as MxArray;
      expectArray(untyped, [0, 1], { dtype: 'float32' });
    });
  });
});

test('lists of earlier calls take no room from later ones', () => {
  using x = mx.array([1, 2]);
  for (let i = 0; i < 10_000; i++) x.reshape([2, 1]).dispose();
});

describe('what MLX leaves to the caller is checked', () => {
  const x = mx.array([1, 2, 3, 4]);
  const signal = mx.array([[[1], [2]]]);
  const index = (data: number[]) => mx.array(data, undefined, 'int32');

  test.each<[string, () => unknown, RegExp]>([
    ['a view past the end', () => mx.asStrided(x, [3], [2]), /outside/],
    ['a view before the start', () => mx.asStrided(x, [2], [-1]), /outside/],
    ['a view from an offset', () => mx.asStrided(x, [2], [1], 3), /outside/],
    ['a view of 0 axes past the end', () => mx.asStrided(x, [], [], 4), /outside/],
    ['strides of another length', () => mx.asStrided(x, [2], [1, 1]), /lengths/],
    ['a view with a negative size', () => mx.asStrided(x, [-1], [1]), /negative/],
    ['a slice with stride 0', () => mx.slice(x, [0], [4], [0]), /stride/],
    ['no parts', () => mx.split(x, 0), /parts/],
    ['more parts than results fit', () => mx.split(x, 2 ** 31 - 1), /parts/],
    ['an unknown size beside 0', () => mx.unflatten(x, 0, [0, -1]), /-1/],
    ['convolution with stride 0', () => mx.conv1d(signal, signal, 0), /stride/],
    ['convolution with dilation 0', () => mx.conv1d(signal, signal, 1, 0, 0), /dilation/],
    ['convolution with 0 groups', () => mx.conv1d(signal, signal, 1, 0, 1, 0), /groups/],
    ['convolution with negative padding', () => mx.conv1d(signal, signal, 1, -1), /padding/],
    ['convolution of no channels', () => mx.conv1d(mx.zeros([1, 3, 0]), signal), /one channel/],
    ['padding without a pair for each axis', () => mx.pad(x, [1]), /low and a high/],
    ['an index past the end', () => mx.take(x, index([0, 4])), /index 4 is outside.*size 4/],
    ['an index before the start', () => mx.take(x, index([-5]), 0), /index -5/],
    ['taking along an axis past its end', () => mx.takeAlongAxis(x, index([9]), 0), /index 9/],
    ['putting past the end', () => mx.putAlongAxis(x, index([4]), mx.array([0]), 0), /index 4/],
    ['taking along an axis that is none', () => mx.take(x, index([0]), 1), /axis 1/],
  ])('%s is a ShapeError', (_, call, message) => {
    const error = thrown(call);
    expect(error).toBeInstanceOf(ShapeError);
    expect(error.message).toMatch(message);
  });

  test('indices up to both ends are taken', () => {
    mx.tidy(() => {
      expectArray(mx.take(x, index([3, -4])), [4, 1]);
      expectArray(mx.take(x, mx.array(Uint8Array.of(3, 0))), [4, 1]);
      expectArray(mx.take(x, mx.array(BigInt64Array.of(-1n))), [4]);
    });
  });

  test('an empty view of an empty array is fine', () => {
    mx.tidy(() => expectArray(mx.asStrided(mx.array([]), [0], [1]), []));
  });
});

describe('random numbers', () => {
  const count = 20_000;

  function moments(draw: (key: MxArray) => MxArray): { mean: number; variance: number } {
    return mx.tidy(() => {
      const numbers = draw(mx.randomKey(7));
      return { mean: numbers.mean().itemSync(), variance: numbers.variance().itemSync() };
    });
  }

  // Standard errors of 20,000 draws are below 0.01; the numbers are the same on every machine.
  test.each<[string, (key: MxArray) => MxArray, number, number]>([
    ['uniform', (key) => mx.randomUniform(key, [count], -1, 3), 1, 16 / 12],
    ['normal', (key) => mx.randomNormal(key, [count]), 0, 1],
    ['integers', (key) => mx.randomInteger(key, [count], 0, 4).astype('float32'), 1.5, 1.25],
    ['bernoulli', (key) => mx.randomBernoulli(key, 0.25, [count]).astype('float32'), 0.25, 0.1875],
    ['gumbel', (key) => mx.randomGumbel(key, [count]), 0.5772157, Math.PI ** 2 / 6],
    [
      'categorical',
      (key) =>
        mx
          .randomCategorical(key, mx.broadcastTo(mx.array([0, Math.log(3)]), [count, 2]))
          .astype('float32'),
      0.75,
      0.1875,
    ],
  ])('%s have the mean and variance of their distribution', (_, draw, mean, variance) => {
    const drawn = moments(draw);
    expect(Math.abs(drawn.mean - mean)).toBeLessThan(0.04);
    expect(Math.abs(drawn.variance - variance)).toBeLessThan(0.08);
  });

  test('one key always gives the same numbers, another key others', () => {
    mx.tidy(() => {
      const draw = (seed: number) => mx.randomUniform(mx.randomKey(seed), [4]);
      expect(draw(1).dataSync()).toEqual(draw(1).dataSync());
      expect(draw(1).dataSync()).not.toEqual(draw(2).dataSync());
    });
  });

  test.each([-1, 1.5, NaN, 2 ** 53])('the seed %d is refused', (seed) => {
    expect(() => mx.randomKey(seed)).toThrow(/whole number/);
  });
});
