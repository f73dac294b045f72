/** Calls with quantised weights that don't fit together: typed errors, and nothing read outside. */
import { DtypeError, mx, ShapeError, type MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { thrown } from './expectations.js';

const w = mx.tidy(() => mx.randomNormal(mx.randomKey(1), [6, 128]));
const [codes, scales, biases] = mx.quantize(w, 64, 4);
const experts = mx.quantize(w.reshape([3, 2, 128]), 64, 4);
const [floatCodes, floatScales] = mx.quantize(w, 32, 4, 'mxfp4');
const x = mx.ones([2, 128]);
const index = (...data: number[]): MxArray => mx.array(data, null, 'int32');

type Call = (
  w: MxArray,
  scales: MxArray,
  biases: MxArray | null,
  groupSize?: number,
  bits?: number,
  mode?: string,
) => MxArray;
const products: Record<string, Call> = {
  quantizedMatmul: (w, s, b, group, bits, mode) =>
    mx.quantizedMatmul(x, w, s, b, true, group, bits, mode),
  quantizedLinear: (w, s, b, group, bits, mode) =>
    mx.quantizedLinear(x, w, s, b, null, group, bits, mode),
  gatherQmm: (w, s, b, group, bits, mode) =>
    mx.gatherQmm(x, w, s, b, null, index(0), true, group, bits, mode),
  quantizedTake: (w, s, b, group, bits, mode) =>
    mx.quantizedTake(w, s, b, index(0), group, bits, mode),
};
const row = (a: MxArray): MxArray => mx.slice(a, [0, 0], [1, a.shape[1]]);

describe.each(Object.entries(products))('%s', (name, call) => {
  test.each<[string, () => unknown, new (message: string) => Error, RegExp]>([
    ['no bits', () => call(codes, scales, biases, 64, 0), DtypeError, /2, 3, 4, 5, 6 or 8 bits/],
    ['7 bits', () => call(codes, scales, biases, 64, 7), DtypeError, /2, 3, 4, 5, 6 or 8 bits/],
    ['groups of none', () => call(codes, scales, biases, 0), DtypeError, /groups of 32, 64 or 128/],
    ['groups below none', () => call(codes, scales, biases, -64), DtypeError, /groups of 32/],
    [
      'a mode with other groups',
      () => call(floatCodes, floatScales, null, 16, 4, 'mxfp4'),
      DtypeError,
      /mxfp4 weights have 4 bits, in groups of 32/,
    ],
    [
      'a mode that is none',
      () => call(codes, scales, biases, 64, 4, 'int4'),
      DtypeError,
      /mode has to be 'affine', 'mxfp4', 'nvfp4' or 'mxfp8'/,
    ],
    ['no biases', () => call(codes, scales, null, 64, 4), ShapeError, /need biases/],
    [
      'biases of small floats',
      () => call(floatCodes, floatScales, biases, 32, 4, 'mxfp4'),
      ShapeError,
      /'mxfp4' have no biases/,
    ],
    [
      'scales of fewer rows',
      () => call(codes, row(scales), row(biases), 64, 4),
      ShapeError,
      /scales have to have shape \(6,2\)/,
    ],
    [
      'scales of other groups',
      () => call(codes, scales, biases, 32, 4),
      ShapeError,
      /scales have to have shape \(6,4\)/,
    ],
    [
      'scales without axes',
      () => call(codes, mx.array(1), mx.array(1), 64, 4),
      ShapeError,
      /scales have to have shape/,
    ],
    [
      'biases of fewer rows',
      () => call(codes, scales, row(biases), 64, 4),
      ShapeError,
      /biases have to have the shape of scales/,
    ],
    ['codes that are numbers', () => call(w, scales, biases, 64, 4), DtypeError, /uint32/],
    [
      'codes of one axis',
      () => call(codes.reshape([-1]), scales, biases, 64, 4),
      ShapeError,
      /at least 2 axes/,
    ],
  ])('%s', (_, action, Class, message) => {
    mx.tidy(() => {
      const error = thrown(action);
      expect(error).toBeInstanceOf(Class);
      expect(error.message).toMatch(message);
      // The op with its arguments and their shapes.
      expect(error.message).toMatch(new RegExp(`^${name}\\(.*scales: \\w+\\[`));
    });
  });
});

describe('arguments', () => {
  const [ws, ss, bs] = experts;
  test.each<[string, () => unknown, new (message: string) => Error, RegExp]>([
    [
      'an unknown precision',
      () => mx.quantizedMatmul(x, codes, scales, biases, true, 64, 4, 'affine', 'exakt'),
      DtypeError,
      /precision has to be 'exact' or 'fast'/,
    ],
    [
      'the same without transpose',
      () => mx.quantizedMatmul(x, codes, scales, biases, false, 64, 4, 'affine', ''),
      DtypeError,
      /precision/,
    ],
    [
      'x of another length',
      () => mx.quantizedLinear(mx.ones([2, 64]), codes, scales, biases),
      ShapeError,
      /64.*\(128, 6\)/,
    ],
    [
      'a number for x',
      () => mx.quantizedMatmul(mx.array(1), codes, scales, biases),
      ShapeError,
      /1 axis/,
    ],
    [
      'a number for x, without transpose',
      () => mx.quantizedMatmul(mx.array(1), codes, scales, biases, false),
      ShapeError,
      /1 axis/,
    ],
    [
      'a bias of another length',
      () => mx.quantizedLinear(x, codes, scales, biases, mx.ones([5])),
      ShapeError,
      /one number per row of w, 6/,
    ],
    [
      'a bias for several matrices',
      () => mx.quantizedLinear(x, ws, ss, bs, mx.ones([3])),
      ShapeError,
      /w has to have 2 axes/,
    ],
    [
      'a table of several matrices',
      () => mx.quantizedTake(ws, ss, bs, index(0)),
      ShapeError,
      /w has to have 2 axes/,
    ],
    [
      'rows that there are not',
      () => mx.quantizedTake(codes, scales, biases, index(0, 6)),
      ShapeError,
      /index 6 is outside an axis of size 6/,
    ],
    [
      'rows named by fractions',
      () => mx.quantizedTake(codes, scales, biases, mx.array([0.5])),
      DtypeError,
      /integer/,
    ],
    [
      'a matrix that there is not',
      () => mx.gatherQmm(x, ws, ss, bs, null, index(-4)),
      ShapeError,
      /index -4 is outside an axis of size 3/,
    ],
    [
      'a block of x that there is not',
      () => mx.gatherQmm(x, ws, ss, bs, index(1), index(0)),
      ShapeError,
      /index 1 is outside an axis of size 1/,
    ],
    [
      'the same where MLX multiplies',
      () => mx.gatherQmm(mx.ones([2, 2]), ws, ss, bs, index(1), index(0), false),
      ShapeError,
      /index 1 is outside/,
    ],
    [
      'indices that don’t broadcast',
      () => mx.gatherQmm(mx.ones([2, 1, 128]), ws, ss, bs, index(0, 1), index(0, 1, 2)),
      ShapeError,
      /broadcast/,
    ],
    [
      'a vector to gather',
      () => mx.gatherQmm(mx.ones([128]), ws, ss, bs, index(0)),
      ShapeError,
      /2 axes/,
    ],
    ['quantize by groups of none', () => mx.quantize(w, 0), DtypeError, /groups/],
    ['quantize to no bits', () => mx.quantize(w, 64, 0), DtypeError, /bits/],
    ['dequantize no bits', () => mx.dequantize(codes, scales, biases, 64, 0), DtypeError, /bits/],
  ])('%s', (_, action, Class, message) => {
    mx.tidy(() => {
      const error = thrown(action);
      expect(error).toBeInstanceOf(Class);
      expect(error.message).toMatch(message);
    });
  });

  test('matrices count from the end, also where MLX multiplies', () => {
    mx.tidy(() => {
      const narrow = mx.ones([1, 2]);
      const product = (id: number) =>
        mx.gatherQmm(narrow, ws, ss, bs, null, index(id), false).dataSync();
      expect(product(-1)).toEqual(product(2));
      expect(product(-1)).not.toEqual(product(0));
    });
  });
});

describe('nothing to multiply', () => {
  const [ws, ss, bs] = experts;
  const none = (...shape: number[]): MxArray => mx.zeros(shape, 'uint32');
  test.each<[string, () => MxArray, number[]]>([
    ['no rows', () => mx.quantizedMatmul(mx.zeros([0, 128]), codes, scales, biases), [0, 6]],
    [
      'no batches',
      () => mx.quantizedLinear(mx.zeros([0, 2, 128]), codes, scales, biases, mx.ones([6])),
      [0, 2, 6],
    ],
    [
      'no rows, without transpose',
      () => mx.quantizedMatmul(mx.zeros([0, 6]), codes, scales, biases, false),
      [0, 128],
    ],
    [
      'no columns',
      () => mx.quantizedMatmul(x, none(0, 16), mx.zeros([0, 2]), mx.zeros([0, 2])),
      [2, 0],
    ],
    [
      'no depth',
      () => mx.quantizedMatmul(mx.zeros([2, 0]), none(3, 0), mx.zeros([3, 0]), mx.zeros([3, 0])),
      [2, 3],
    ],
    [
      'matrices without rows',
      () => mx.gatherQmm(mx.zeros([2, 0, 128]), ws, ss, bs, null, index(0, 1)),
      [2, 0, 2],
    ],
    [
      'no matrices',
      () => mx.gatherQmm(mx.zeros([0, 1, 128]), ws, ss, bs, null, none(0)),
      [0, 1, 2],
    ],
  ])('%s', (_, call, shape) => {
    mx.tidy(() => {
      const y = call();
      expect(y.shape).toEqual(shape);
      expect(y.dataSync()).toEqual(new Float32Array(y.size));
    });
  });
});
