import { array, ints, matrix, one, type OpCase } from './case.js';

export const shapes: Record<string, OpCase[]> = {
  arange: [
    { args: () => [0, 5, 2], gives: [0, 2, 4], dtype: 'float32' },
    { args: () => [3, 0, -1, 'int32'], gives: [3, 2, 1], dtype: 'int32' },
  ],
  linspace: [
    { args: () => [0, 1, 5], gives: [0, 0.25, 0.5, 0.75, 1] },
    { args: () => [0, 1, 4, false], gives: [0, 0.25, 0.5, 0.75] },
  ],
  full: [
    { args: () => [[2, 1], 7], gives: [[7], [7]], dtype: 'float32' },
    { args: () => [[2], 7, 'int64'], gives: [7, 7], dtype: 'int64' },
    { args: () => [[1], true], gives: [true], dtype: 'bool_' },
  ],
  zeros: [{ args: () => [[1, 2], 'int8'], gives: [[0, 0]], dtype: 'int8' }],
  ones: [{ args: () => [[2]], gives: [1, 1], dtype: 'float32' }],
  zerosLike: [{ args: () => [ints([[3, 4]])], gives: [[0, 0]], dtype: 'int32' }],
  onesLike: [{ args: () => [ints([[3, 4]])], gives: [[1, 1]], dtype: 'int32' }],
  eye: [
    {
      args: () => [2],
      gives: [
        [1, 0],
        [0, 1],
      ],
    },
    {
      args: () => [2, 3, 1, 'int32'],
      gives: [
        [0, 1, 0],
        [0, 0, 1],
      ],
      dtype: 'int32',
    },
  ],
  tri: [
    {
      args: () => [2, 3],
      gives: [
        [1, 0, 0],
        [1, 1, 0],
      ],
    },
  ],
  tril: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 0, 0],
        [4, 5, 0],
      ],
    },
    {
      args: () => [array(matrix), 1],
      gives: [
        [1, 2, 0],
        [4, 5, 6],
      ],
    },
  ],
  triu: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 2, 3],
        [0, 5, 6],
      ],
    },
  ],
  copy: one([1, 2], [1, 2]),
  contiguous: [
    {
      args: () => [array(matrix).transpose()],
      gives: [
        [1, 4],
        [2, 5],
        [3, 6],
      ],
    },
  ],
  reshape: [
    {
      args: () => [array(matrix), [3, -1]],
      gives: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
    },
  ],
  unflatten: [
    {
      args: () => [array([1, 2, 3, 4]), 0, [2, -1]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
  ],
  flatten: [
    { args: () => [array(matrix)], gives: [1, 2, 3, 4, 5, 6] },
    { args: () => [array([matrix]), 0, 1], gives: matrix },
  ],
  squeeze: [
    { args: () => [array([[[1], [2]]])], gives: [1, 2] },
    { args: () => [array([[[1], [2]]]), 0], gives: [[1], [2]] },
  ],
  expandDims: [
    { args: () => [array([1, 2]), 0], gives: [[1, 2]] },
    { args: () => [array([1, 2]), [0, 2]], gives: [[[1], [2]]] },
  ],
  transpose: [
    {
      args: () => [array(matrix)],
      gives: [
        [1, 4],
        [2, 5],
        [3, 6],
      ],
    },
    { args: () => [array([matrix]), [1, 0, 2]], gives: [[[1, 2, 3]], [[4, 5, 6]]] },
  ],
  swapaxes: [
    {
      args: () => [array([matrix]), 0, 2],
      gives: [
        [[1], [4]],
        [[2], [5]],
        [[3], [6]],
      ],
    },
  ],
  moveaxis: [
    {
      args: () => [array([matrix]), 0, 2],
      gives: [
        [[1], [2], [3]],
        [[4], [5], [6]],
      ],
    },
  ],
  flip: [
    {
      args: () => [array(matrix)],
      gives: [
        [6, 5, 4],
        [3, 2, 1],
      ],
    },
    {
      args: () => [array(matrix), 1],
      gives: [
        [3, 2, 1],
        [6, 5, 4],
      ],
    },
  ],
  roll: [
    { args: () => [array([1, 2, 3]), 1], gives: [3, 1, 2] },
    {
      args: () => [array(matrix), -1, 1],
      gives: [
        [2, 3, 1],
        [5, 6, 4],
      ],
    },
  ],
  broadcastTo: [
    {
      args: () => [array([1, 2]), [2, 2]],
      gives: [
        [1, 2],
        [1, 2],
      ],
    },
  ],
  slice: [
    {
      args: () => [array(matrix), [0, 1], [2, 3]],
      gives: [
        [2, 3],
        [5, 6],
      ],
    },
    { args: () => [array([0, 1, 2, 3, 4]), [1], [5], [2]], gives: [1, 3] },
  ],
  sliceUpdate: [
    {
      args: () => [array(matrix), array([[9]]), [1, 1], [2, 2]],
      gives: [
        [1, 2, 3],
        [4, 9, 6],
      ],
    },
  ],
  asStrided: [
    {
      args: () => [array([0, 1, 2, 3, 4]), [2, 3], [2, 1]],
      gives: [
        [0, 1, 2],
        [2, 3, 4],
      ],
    },
    { args: () => [array([0, 1, 2]), [3], [-1], 2], gives: [2, 1, 0] },
  ],
  split: [{ args: () => [array([[1, 2, 3, 4]]), 2, 1], gives: [[[1, 2]], [[3, 4]]] }],
  splitAt: [
    {
      args: () => [array([1, 2, 3, 4]), [2]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
  ],
  concatenate: [
    { args: () => [[array([1, 2]), array([3])]], gives: [1, 2, 3] },
    { args: () => [[array([[1]]), array([[2]])], 1], gives: [[1, 2]] },
  ],
  stack: [
    {
      args: () => [[array([1, 2]), array([3, 4])]],
      gives: [
        [1, 2],
        [3, 4],
      ],
    },
    {
      args: () => [[array([1, 2]), array([3, 4])], -1],
      gives: [
        [1, 3],
        [2, 4],
      ],
    },
  ],
  tile: [
    {
      args: () => [array([1, 2]), [2, 2]],
      gives: [
        [1, 2, 1, 2],
        [1, 2, 1, 2],
      ],
    },
  ],
  repeat: [
    { args: () => [array([1, 2]), 2], gives: [1, 1, 2, 2] },
    {
      args: () => [array([[1, 2]]), 2, 0],
      gives: [
        [1, 2],
        [1, 2],
      ],
    },
  ],
  pad: [
    { args: () => [array([1, 2]), [1, 2]], gives: [0, 1, 2, 0, 0] },
    { args: () => [ints([1, 2]), [1, 0], 9], gives: [9, 1, 2], dtype: 'int32' },
    { args: () => [array([1, 2]), [2, 1], null, 'edge'], gives: [1, 1, 1, 2, 2] },
  ],
  take: [
    { args: () => [array(matrix), ints([5, 0, -1])], gives: [6, 1, 6] },
    { args: () => [array(matrix), ints([1]), 0], gives: [[4, 5, 6]] },
  ],
  takeAlongAxis: [{ args: () => [array(matrix), ints([[2], [0]]), 1], gives: [[3], [4]] }],
  putAlongAxis: [
    {
      args: () => [array(matrix), ints([[2], [0]]), array([[7], [8]]), 1],
      gives: [
        [1, 2, 7],
        [8, 5, 6],
      ],
    },
  ],
};
