import { mx, type MxArray } from '@mlx-runners/mlx-core';
import type { OpCase } from './case.js';

const bytes = (...values: number[]): MxArray => mx.array(Uint8Array.from(values));
const counting = Array.from({ length: 32 }, (_, i) => i);
/** 1 as float16. */
const one = [0x00, 0x3c];

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
};
