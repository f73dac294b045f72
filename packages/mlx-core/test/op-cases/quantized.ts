import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { array, ints, type OpCase } from './case.js';

/** A row of 32 codes (1, 2, 3, …, 15, 0, 1, …, 15, 0), as MLX packs 4-bit ones. */
const packed = (): MxArray => array([[0x87654321, 0x0fedcba9, 0x87654321, 0x0fedcba9]], 'uint32');
const codes = Array.from({ length: 32 }, (_, i) => (i + 1) % 16);
const ones = (): MxArray => mx.ones([1, 32]);

/** Blocks of Q8_0: scale 0.5 or 2, codes −16 to 15. */
const block = (scaleBits: number): number[] => [
  0,
  scaleBits,
  ...Array.from({ length: 32 }, (_, i) => (i + 240) % 256),
];
const half = block(0x38);
const two = block(0x40);
const whole = (factor: number): number[] => Array.from({ length: 32 }, (_, i) => factor * (i - 16));

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
  blockLinear: [
    { args: () => [ones(), array([half, two], 'uint8'), 'Q8_0'], gives: [[-8, -32]] },
    {
      args: () => [ones(), array([half, two], 'uint8'), 'Q8_0', array([1, 2]), 'fast'],
      gives: [[-7, -30]],
      tolerance: 1e-5,
    },
  ],
  blockTake: [
    {
      args: () => [array([half, two], 'uint8'), ints([[1], [-2]]), 'Q8_0'],
      gives: [[whole(2)], [whole(0.5)]],
    },
  ],
  blockGatherLinear: [
    {
      args: () => [ones(), array([[half], [two]], 'uint8'), ints([1, 0, 1]), 'Q8_0'],
      gives: [[-32], [-8], [-32]],
    },
  ],
};
