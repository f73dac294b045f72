import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { array, type OpCase } from './case.js';

const key = (): MxArray => mx.randomKey(0);
export const random: Record<string, OpCase[]> = {
  randomKey: [
    { args: () => [0], gives: [0, 0], dtype: 'uint32' },
    { args: () => [2 ** 40 + 5], gives: [256, 5] },
  ],
  // Threefry-2x32 as in JAX, whose documentation shows these very keys.
  randomSplit: [
    {
      args: () => [key()],
      gives: [
        [4146024105, 967050713],
        [2718843009, 1272950319],
      ],
      dtype: 'uint32',
    },
  ],
  randomUniform: [{ args: () => [key(), [2], 3, 3], gives: [3, 3], dtype: 'float32' }],
  randomNormal: [{ args: () => [key(), [0]], gives: [], dtype: 'float32' }],
  randomInteger: [{ args: () => [key(), [2], 5, 6], gives: [5, 5], dtype: 'int32' }],
  randomBernoulli: [
    { args: () => [key(), 1, [2]], gives: [true, true], dtype: 'bool_' },
    { args: () => [key(), 0, [2]], gives: [false, false] },
  ],
  randomGumbel: [{ args: () => [key(), [0]], gives: [], dtype: 'float32' }],
  randomCategorical: [
    {
      args: () => [
        key(),
        array([
          [0, -Infinity],
          [-Infinity, 0],
        ]),
      ],
      gives: [0, 1],
      dtype: 'uint32',
    },
  ],
};
