import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { array, ints, type OpCase } from './case.js';

const bytes = (...values: number[]): MxArray => mx.array(Uint8Array.from(values));
const counting = Array.from({ length: 32 }, (_, i) => i);
/** 1 as float16. */
const one = [0x00, 0x3c];
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

export const blocks: Record<string, OpCase[]> = {
  blockQuantize: [
    { args: () => [mx.array([1, -2]), 'BF16'], gives: [0x80, 0x3f, 0, 0xc0], dtype: 'uint8' },
    {
      args: () => [mx.array(counting).multiply(127 / 31), 'Q8_0'],
      gives: [...one, ...counting.map((i) => Math.round((i * 127) / 31))],
      dtype: 'uint8',
    },
  ],
  blockDequantize: [
    { args: () => [bytes(0, 0, 0x80, 0x3f), 'F32'], gives: [1], dtype: 'float32' },
    {
      args: () => [
        bytes(...one, ...counting.slice(0, 16).map((i) => i | ((15 - i) << 4))).reshape([1, 18]),
        'Q4_0',
      ],
      gives: [counting.map((i) => (i < 16 ? i - 8 : 23 - i))],
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
  blockLinears: [
    {
      args: () => [ones(), [array([half, two], 'uint8'), array([two], 'uint8')], 'Q8_0'],
      gives: [[[-8, -32]], [[-32]]],
    },
    {
      args: () => [
        ones(),
        [array([half], 'uint8'), array([two], 'uint8')],
        'Q8_0',
        [array([1]), array([2])],
        'fast',
      ],
      gives: [[[-7]], [[-30]]],
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
