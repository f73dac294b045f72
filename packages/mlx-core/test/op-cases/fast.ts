import { array, complex, type OpCase } from './case.js';

const root = Math.sqrt(12.5 + 1e-5);
export const fast: Record<string, OpCase[]> = {
  layerNorm: [
    { args: () => [array([[1, 3]])], gives: [[-1, 1]], tolerance: 1e-5 },
    { args: () => [array([[1, 3]]), array([2, 2]), array([5, 5]), 3], gives: [[4, 6]] },
  ],
  rmsNorm: [{ args: () => [array([[3, 4]]), array([1, 2])], gives: [[3 / root, 8 / root]] }],
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
