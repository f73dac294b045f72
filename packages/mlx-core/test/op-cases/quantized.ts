import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { array, ints, type OpCase } from './case.js';

/** A row of 32 codes (1, 2, 3, …, 15, 0, 1, …, 15, 0), as MLX packs 4-bit ones. */
const packed = (): MxArray => array([[0x87654321, 0x0fedcba9, 0x87654321, 0x0fedcba9]], 'uint32');
const codes = Array.from({ length: 32 }, (_, i) => (i + 1) % 16);
const ones = (): MxArray => mx.ones([1, 32]);

const fp4 = [0.5, 1, 1.5, 2, 3, 4, 6, -0, -0.5, -1, -1.5, -2, -3, -4, -6, 0];

export const quantized: Record<string, OpCase[]> = {
  quantize: [
    {
      args: () => [array([codes]), 32, 4],
      // The largest number is met by a negative scale: code 0 is 15, code 15 is 0.
      gives: [[[0x789abcde, 0xf0123456, 0x789abcde, 0xf0123456]], [[-1]], [[15]]],
    },
  ],
  dequantize: [
    {
      args: () => [packed(), array([[2]]), array([[1]]), 32, 4],
      gives: [codes.map((c) => 2 * c + 1)],
    },
  ],
  quantizedMatmul: [
    { args: () => [ones(), packed(), array([[2]]), array([[1]]), true, 32], gives: [[512]] },
    {
      args: () => [ones(), packed(), array([[2]]), array([[1]]), true, 32, 4, 'affine', 'fast'],
      gives: [[512]],
      tolerance: 1e-5,
    },
    {
      args: () => [array([[3]]), packed(), array([[1]]), array([[0]]), false, 32, 4],
      gives: [codes.map((c) => 3 * c)],
    },
  ],
  gatherQmm: [
    {
      args: () => [
        ones(),
        mx.stack([packed(), packed()]),
        array([[[1]], [[2]]]),
        array([[[0]], [[0]]]),
        null,
        array([1, 0, 1], 'uint32'),
        true,
        32,
      ],
      gives: [[[480]], [[240]], [[480]]],
    },
  ],
  quantizedLinear: [
    {
      args: () => [ones(), packed(), array([[2]]), array([[1]]), null, 32],
      gives: [[512]],
    },
    {
      args: () => [
        ones(),
        packed(),
        array([[2]]),
        array([[1]]),
        array([-12]),
        32,
        4,
        'affine',
        'fast',
      ],
      gives: [[500]],
      tolerance: 1e-5,
    },
  ],
  quantizedLinears: [
    {
      args: () => [
        ones(),
        [packed(), packed()],
        [array([[2]]), array([[1]])],
        [array([[1]]), array([[0]])],
        [array([-12]), array([1])],
        32,
      ],
      gives: [[[500]], [[241]]],
    },
  ],
  quantizedTake: [
    {
      args: () => [packed(), array([[2]]), array([[1]]), ints([[0], [-1]]), 32],
      gives: [[codes.map((c) => 2 * c + 1)], [codes.map((c) => 2 * c + 1)]],
      dtype: 'float32',
    },
    {
      // 2² times the values of codes 1 to 15 and 0.
      args: () => [packed(), array([[129]], 'uint8'), null, ints(0), null, null, 'mxfp4'],
      gives: [...fp4, ...fp4].map((value) => 4 * value),
    },
  ],
};
