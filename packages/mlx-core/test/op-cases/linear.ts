import { array, matrix, two, type OpCase } from './case.js';

export const linear: Record<string, OpCase[]> = {
  matmul: two(matrix, [[1], [0], [-1]], [[-2], [-2]]),
  addmm: [
    { args: () => [array([[1]]), array([[2]]), array([[3]])], gives: [[7]] },
    { args: () => [array([[1]]), array([[2]]), array([[3]]), 2, -1], gives: [[11]] },
  ],
  linear: [
    { args: () => [array([[1, 2, 3]]), array(matrix)], gives: [[14, 32]] },
    { args: () => [array([[1, 2, 3]]), array(matrix), array([1, -1])], gives: [[15, 31]] },
  ],
  outer: two(
    [1, 2],
    [3, 4],
    [
      [3, 4],
      [6, 8],
    ],
  ),
  inner: two([1, 2], [3, 4], 11),
  conv1d: [
    { args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]])], gives: [[[21], [42]]] },
    {
      args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]]), 2, 1],
      gives: [[[10], [42]]],
    },
    { args: () => [array([[[1], [2], [4]]]), array([[[1], [10]]]), 1, 0, 2], gives: [[[41]]] },
    { args: () => [array([[[1, 2]]]), array([[[3]], [[4]]]), 1, 0, 1, 2], gives: [[[3, 8]]] },
  ],
  norm: [
    { args: () => [array([3, 4])], gives: 5 },
    { args: () => [array([[3, 4]]), 1, true], gives: [[5]] },
  ],
};
