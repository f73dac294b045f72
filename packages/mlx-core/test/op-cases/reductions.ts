import { array, matrix, one, reduced, type OpCase } from './case.js';

const variance = 35 / 12;
export const reductions: Record<string, OpCase[]> = {
  sum: reduced(21, [[6], [15]], 'float32'),
  mean: reduced(3.5, [[2], [5]], 'float32'),
  prod: reduced(720, [[6], [120]]),
  max: reduced(6, [[3], [6]]),
  min: reduced(1, [[1], [4]]),
  all: [...reduced(true, [[true], [true]], 'bool_'), ...one([1, 0], false)],
  any: [...reduced(true, [[true], [true]], 'bool_'), ...one([0, 0], false)],
  logsumexp: [...one([0, 0], Math.LN2), ...one([1000, 1000], 1000 + Math.LN2)],
  median: reduced(3.5, [[2], [5]]),
  variance: [
    ...reduced(variance, [[2 / 3], [2 / 3]]),
    { args: () => [array(matrix), null, false, 1], gives: 3.5 },
  ],
  std: [
    ...reduced(Math.sqrt(variance), [[Math.sqrt(2 / 3)], [Math.sqrt(2 / 3)]]),
    { args: () => [array(matrix), 1, false, 1], gives: [1, 1] },
  ],
  argmax: [
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
      ],
      gives: 1,
      dtype: 'uint32',
    },
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
        1,
        true,
      ],
      gives: [[1], [0]],
    },
  ],
  argmin: [
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
      ],
      gives: 0,
      dtype: 'uint32',
    },
    {
      args: () => [
        array([
          [1, 9],
          [8, 2],
        ]),
        0,
      ],
      gives: [0, 1],
    },
  ],
  softmax: [
    { args: () => [array([[0, Math.log(3)]]), -1], gives: [[0.25, 0.75]] },
    { args: () => [array([[0], [Math.log(3)]])], gives: [[0.25], [0.75]] },
    {
      args: () => [
        array([
          [0, 5],
          [Math.log(3), 5],
        ]),
        0,
        true,
      ],
      gives: [
        [0.25, 0.5],
        [0.75, 0.5],
      ],
    },
  ],
  sort: [
    { args: () => [array([[3, 1, 2]])], gives: [[1, 2, 3]] },
    { args: () => [array([[3], [1]]), 0], gives: [[1], [3]] },
  ],
  argsort: [{ args: () => [array([3, 1, 2])], gives: [1, 2, 0], dtype: 'uint32' }],
  partition: [{ args: () => [array([3, 1, 2]), 1], gives: [1, 2, 3] }],
  argpartition: [{ args: () => [array([3, 1, 2]), 1], gives: [1, 2, 0], dtype: 'uint32' }],
  topk: [{ args: () => [array([3, 1, 2]), 1], gives: [3] }],
  cumsum: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 3, 6],
        [4, 9, 15],
      ],
    },
    { args: () => [array([1, 2, 3]), 0, true], gives: [6, 5, 3] },
    { args: () => [array([1, 2, 3]), 0, false, false], gives: [0, 1, 3] },
  ],
  cummax: [{ args: () => [array([1, 3, 2])], gives: [1, 3, 3] }],
  arrayEqual: [
    { args: () => [array([1, NaN]), array([1, NaN])], gives: false, dtype: 'bool_' },
    { args: () => [array([1, NaN]), array([1, NaN]), true], gives: true },
  ],
  allclose: [
    { args: () => [array([1, 2]), array([1, 2.000001])], gives: true, dtype: 'bool_' },
    { args: () => [array([1, 2]), array([1, 2.1])], gives: false },
    { args: () => [array([1, 2]), array([1, 2.1]), 0, 0.2], gives: true },
  ],
  isclose: [{ args: () => [array([1, 2]), array([1, 2.1])], gives: [true, false] }],
};
