import { array, bools, complex, ints, type OpCase } from './case.js';

const sigmoid = 1 / (1 + Math.exp(-1));
const root = Math.sqrt(12.5 + 1e-5);
export const fast: Record<string, OpCase[]> = {
  layerNorm: [
    { args: () => [array([[1, 3]])], gives: [[-1, 1]], tolerance: 1e-5 },
    { args: () => [array([[1, 3]]), array([2, 2]), array([5, 5]), 3], gives: [[4, 6]] },
  ],
  rmsNorm: [{ args: () => [array([[3, 4]]), array([1, 2])], gives: [[3 / root, 8 / root]] }],
  addRmsNorm: [
    {
      args: () => [array([[1, 3]]), array([[2, 1]]), array([1, 2])],
      gives: [[[3, 4]], [[3 / root, 8 / root]]],
    },
  ],
  swiglu: [
    { args: () => [array([0, 1, -1]), array([7, 2, 3])], gives: [0, 2 * sigmoid, 3 * sigmoid - 3] },
  ],
  geglu: [
    { args: () => [array([0, 1, -1]), array([7, 2, 3])], gives: [0, 1.682384, -0.4764238] },
    { args: () => [array([0, 1, -1]), array([7, 2, 3]), false], gives: [0, 1.682689, -0.4759658] },
    {
      args: () => [ints([0, 1, -1]), ints([7, 2, 3])],
      gives: [0, 1.682384, -0.4764238],
      dtype: 'float32',
    },
    {
      args: () => [bools([0, 1]), array([7, 2], 'uint8'), false],
      gives: [0, 1.682689],
      dtype: 'float32',
    },
  ],
  attention: [
    {
      // Of three keys the first is outside of the window; the sink weighs as much as the last.
      args: () => [
        array([[[[1]]]]),
        array([[[[9], [0], [0]]]]),
        array([[[[9], [3], [6]]]]),
        1,
        'causal',
        null,
        array([0]),
        2,
      ],
      gives: [[[[3]]]],
    },
    {
      args: () => [
        array([[[[1]]]]),
        array([[[[0], [1e6]]]]),
        array([[[[0], [4]]]]),
        1,
        '',
        null,
        null,
        0,
        Math.log(3),
      ],
      gives: [[[[3]]]],
    },
  ],
  rope: [
    {
      // Position 1 turns the pair (x0, x1) by one radian.
      args: () => [
        array([
          [
            [
              [5, 6],
              [1, 0],
            ],
          ],
        ]),
        2,
        false,
        10000,
      ],
      gives: [
        [
          [
            [5, 6],
            [Math.cos(1), Math.sin(1)],
          ],
        ],
      ],
    },
  ],
  scaledDotProductAttention: [
    {
      args: () => [array([[[[1]]]]), array([[[[0], [Math.log(3)]]]]), array([[[[0], [4]]]]), 1],
      gives: [[[[3]]]],
    },
    {
      args: () => [
        array([[[[1], [1]]]]),
        array([[[[0], [Math.log(3)]]]]),
        array([[[[0], [4]]]]),
        1,
        'causal',
      ],
      gives: [[[[0], [3]]]],
    },
  ],
  fft: [
    {
      args: () => [array([1, 0, 0, 0]), 2],
      gives: [
        [1, 0],
        [1, 0],
      ],
      dtype: 'complex64',
    },
    {
      args: () => [array([0, 1, 0, 0])],
      gives: [
        [1, 0],
        [0, -1],
        [-1, 0],
        [0, 1],
      ],
    },
  ],
  ifft: [
    {
      args: () => [complex([1, 0, 0, -1, -1, 0, 0, 1])],
      gives: [
        [0, 0],
        [1, 0],
        [0, 0],
        [0, 0],
      ],
    },
  ],
  rfft: [
    {
      args: () => [array([0, 1, 0, 0])],
      gives: [
        [1, 0],
        [0, -1],
        [-1, 0],
      ],
    },
  ],
  irfft: [{ args: () => [complex([1, 0, 0, -1, -1, 0])], gives: [0, 1, 0, 0], dtype: 'float32' }],
};
