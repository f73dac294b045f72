/** linear and matmul where one of the operands has 16 bits, against sums in double precision. */
import type { Dtype, MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { unaligned } from '../unaligned-arrays.js';
import { expectWithin } from './bounds.js';
import { arrayOf, numbers, stridedArrayOf, type Mx } from './inputs.js';
import * as reference from './reference.js';
import type { Plain } from './reference.js';

type Float = 'float32' | 'float16' | 'bfloat16';
/** Half a unit in the last place. */
const steps: Record<Float, number> = { float32: 0, float16: 2 ** -11, bfloat16: 2 ** -8 };
/** Dtypes of x, of the weights and of what MLX makes of both. */
const dtypes: [x: Float, weight: Float, result: Float][] = [
  ['float16', 'float16', 'float16'],
  ['bfloat16', 'bfloat16', 'bfloat16'],
  ['float32', 'float16', 'float32'],
  ['float32', 'bfloat16', 'float32'],
  ['float16', 'bfloat16', 'float32'],
  ['bfloat16', 'float32', 'float32'],
];

export function halfWeightsSuite(mx: Mx): void {
  /** Random numbers that the dtype has, also as plain numbers. */
  const rounded = (shape: number[], seed: number, dtype: Dtype): [MxArray, Plain] => {
    const array = arrayOf(mx, numbers(shape, seed)).astype(dtype);
    return [array, { data: Float64Array.from(array.dataSync(), Number), shape }];
  };
  /** Each result is the exact sum, rounded once. */
  const check = (y: MxArray, { values, sizes }: reference.Sums, dtype: Float): void => {
    expect(y.dtype).toBe(dtype);
    const bounds = Array.from(
      values,
      (value, i) => steps[dtype] * Math.abs(value) + 1e-6 * sizes[i] + 1e-7,
    );
    expectWithin(y.astype('float32').dataSync(), Array.from(values), bounds);
  };

  describe.each(dtypes)('x in %s, weights in %s', (xDtype, wDtype, result) => {
    const shapes = [1, 2, 5, 17, 40].flatMap((m) =>
      [
        [1, 1],
        [5, 7],
        [17, 33],
        [129, 300],
      ].map(([n, k]) => [m, n, k] as const),
    );

    test.each(shapes)('%d rows, %d columns, depth %d', (m, n, k) => {
      mx.tidy(() => {
        const [x, plainX] = rounded([m, k], 1, xDtype);
        const [w, plainW] = rounded([n, k], 2, wDtype);
        const [bias, plainBias] = rounded([n], 3, result);
        const sums = reference.linear(plainX, plainW);
        check(mx.linear(x, w), sums, result);
        check(mx.linear(x, w, bias), reference.linear(plainX, plainW, plainBias), result);
        check(mx.matmul(x, mx.transpose(w)), sums, result);
        const turned = mx.transpose(w);
        mx.evalSync(turned);
        check(mx.matmul(x, turned), sums, result);
        check(mx.matmul(x, mx.contiguous(turned)), sums, result);
      });
    });

    test('more axes, views and odd addresses', () => {
      mx.tidy(() => {
        const [x, plainX] = rounded([2, 3, 4, 19], 1, xDtype);
        const [w, plainW] = rounded([21, 19], 2, wDtype);
        const sums = reference.linear(plainX, plainW);
        const view = stridedArrayOf(mx, plainW).astype(wDtype);
        check(
          mx.linear(mx.swapaxes(mx.contiguous(mx.swapaxes(x, 0, 1)), 0, 1), view),
          sums,
          result,
        );
        const [movedX, movedW] = unaligned(mx, [x, w]);
        check(mx.linear(movedX, movedW), sums, result);
        check(mx.matmul(movedX, mx.transpose(movedW)), sums, result);
        const y = mx.linear(x, w);
        expect(y.shape).toEqual([2, 3, 4, 21]);
      });
    });

    test('a vector, batches of matrices, and nothing', () => {
      mx.tidy(() => {
        const [x, plainX] = rounded([19], 1, xDtype);
        const [w, plainW] = rounded([21, 19], 2, wDtype);
        const sums = reference.linear(plainX, plainW);
        check(mx.matmul(x, mx.transpose(w)), sums, result);
        expect(mx.matmul(x, mx.transpose(w)).shape).toEqual([21]);
        const batch = mx.matmul(
          mx.broadcastTo(x, [2, 1, 19]),
          mx.broadcastTo(mx.transpose(w), [2, 19, 21]),
        );
        expect(batch.shape).toEqual([2, 1, 21]);
        check(mx.slice(batch, [1, 0, 0], [2, 1, 21]).reshape([21]), sums, result);
        const none = mx.linear(mx.zeros([0, 19], xDtype), w);
        expect([none.dtype, none.shape]).toEqual([result, [0, 21]]);
      });
    });
  });

  test('a bias of float32 makes the result float32', () => {
    mx.tidy(() => {
      const [x, plainX] = rounded([3, 40], 1, 'bfloat16');
      const [w, plainW] = rounded([6, 40], 2, 'bfloat16');
      const bias = numbers([6], 3);
      const sums = reference.linear(plainX, plainW, bias);
      check(mx.linear(x, w, arrayOf(mx, bias)), sums, 'float32');
    });
  });
}
