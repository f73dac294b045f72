import { mx, type MxArray, type Operand } from '@mlx-runners/mlx-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectArray, expectNumbers } from './expectations.js';

type Unary = [
  op: keyof typeof mx & keyof MxArray,
  of: (x: number) => number,
  from: number,
  to: number,
];

describe('unary ops agree with Math', () => {
  const all: Unary[] = [
    ['abs', Math.abs, -1e30, 1e30],
    ['square', (x) => x * x, -1e15, 1e15],
    ['sqrt', Math.sqrt, 0, 1e30],
    ['rsqrt', (x) => 1 / Math.sqrt(x), 1e-6, 1e30],
    ['reciprocal', (x) => 1 / x, 1e-3, 1e3],
    ['exp', Math.exp, -80, 80],
    ['expm1', Math.expm1, -10, 10],
    ['log', Math.log, 1e-20, 1e20],
    ['log2', Math.log2, 1e-20, 1e20],
    ['log10', Math.log10, 1e-20, 1e20],
    ['log1p', Math.log1p, -0.9, 1e10],
    ['sin', Math.sin, -20, 20],
    ['cos', Math.cos, -20, 20],
    ['tan', Math.tan, -1.4, 1.4],
    ['arcsin', Math.asin, -1, 1],
    ['arccos', Math.acos, -1, 1],
    ['arctan', Math.atan, -1e6, 1e6],
    ['sinh', Math.sinh, -10, 10],
    ['cosh', Math.cosh, -10, 10],
    ['tanh', Math.tanh, -20, 20],
    ['arcsinh', Math.asinh, -1e6, 1e6],
    ['arccosh', Math.acosh, 1, 1e6],
    ['arctanh', Math.atanh, -0.99, 0.99],
    ['sigmoid', (x) => 1 / (1 + Math.exp(-x)), -50, 50],
    ['floor', Math.floor, -1e6, 1e6],
    ['ceil', Math.ceil, -1e6, 1e6],
    ['trunc', Math.trunc, -1e6, 1e6],
  ];

  test.each(all)('%s', (op, of, from, to) => {
    const numbers = fc.float32Array({
      noNaN: true,
      min: Math.fround(from) < from ? Math.fround(from + Math.abs(from) * 1e-6) : Math.fround(from),
      max: Math.fround(to) > to ? Math.fround(to - Math.abs(to) * 1e-6) : Math.fround(to),
      minLength: 1,
      // Past one vector of every instruction set, with a rest.
      maxLength: 37,
    });
    fc.assert(
      fc.property(numbers, (data) => {
        mx.tidy(() => {
          const result = (mx[op] as (x: MxArray) => MxArray)(mx.array(data));
          // Rounding the input by half a unit is what steep functions are forgiven.
          expectNumbers(result.dataSync(), Float32Array.from(data, of), 4e-6);
        });
      }),
    );
  });

  test('NaN stays NaN, infinities go where they belong', () => {
    mx.tidy(() => {
      const x = mx.array([NaN, Infinity, -Infinity]);
      expectArray(x.exp(), [NaN, Infinity, 0]);
      expectArray(x.tanh(), [NaN, 1, -1]);
      expectArray(x.sigmoid(), [NaN, 1, 0]);
      expectArray(x.sqrt(), [NaN, Infinity, NaN]);
      expectArray(x.log(), [NaN, Infinity, NaN]);
      expectArray(x.maximum(0), [NaN, Infinity, 0]);
      expectArray(x.minimum(0), [NaN, 0, -Infinity]);
    });
  });
});

describe('binary ops agree with JavaScript', () => {
  const all: [keyof typeof mx, (a: number, b: number) => number][] = [
    ['add', (a, b) => a + b],
    ['subtract', (a, b) => a - b],
    ['multiply', (a, b) => a * b],
    ['divide', (a, b) => a / b],
    ['maximum', Math.max],
    ['minimum', Math.min],
    ['less', (a, b) => Number(a < b)],
    ['arctan2', Math.atan2],
    ['logaddexp', (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)))],
  ];
  const number = fc.integer({ min: -64, max: 64 }).map((n) => (n + 0.5) / 8);

  test.each(all)('%s, array with array, row and number', (op, of) => {
    const call = mx[op] as (a: Operand, b: Operand) => MxArray;
    fc.assert(
      fc.property(fc.array(fc.tuple(number, number), { minLength: 1, maxLength: 21 }), (pairs) => {
        mx.tidy(() => {
          const [a, b] = [0, 1].map((side) => pairs.map((pair) => pair[side]));
          const [x, y] = [mx.array(a), mx.array(b)];
          const each = pairs.map((pair) => of(...pair));
          expectNumbers(call(x, y).dataSync(), each, 2e-6);
          expectNumbers(
            call(x, b[0]).dataSync(),
            a.map((value) => of(value, b[0])),
            2e-6,
          );
          expectNumbers(
            call(a[0], y).dataSync(),
            b.map((value) => of(a[0], value)),
            2e-6,
          );
          const outer = a.flatMap((left) => b.map((right) => of(left, right)));
          expectNumbers(call(x.expandDims(1), y).dataSync(), outer, 2e-6);
        });
      }),
    );
  });
});

describe('numbers take the dtype of the arrays they meet', () => {
  const of = (data: number[], dtype: Parameters<typeof mx.array>[2]) =>
    mx.array(data, undefined, dtype);

  test.each<[string, () => MxArray, string, number[]]>([
    ['int32 + 1', () => mx.add(of([1], 'int32'), 1), 'int32', [2]],
    ['1 + int32', () => mx.add(1, of([1], 'int32')), 'int32', [2]],
    ['int32 + 1.5', () => mx.add(of([1], 'int32'), 1.5), 'float32', [2.5]],
    ['int64 + 2⁵³ − 1', () => mx.add(of([0], 'int64'), 2 ** 53 - 1), 'int64', [2 ** 53 - 1]],
    ['uint8 + 1', () => mx.add(of([1], 'uint8'), 1), 'uint8', [2]],
    ['uint8 + −1 wraps', () => mx.add(of([1], 'uint8'), -1), 'uint8', [0]],
    ['bool + 1', () => mx.add(of([1], 'bool_'), 1), 'int32', [2]],
    ['bool + 0.5', () => mx.add(of([1], 'bool_'), 0.5), 'float32', [1.5]],
    ['float16 + 1.5', () => mx.add(of([1], 'float16'), 1.5), 'float16', [2.5]],
    ['bfloat16 · 2', () => mx.multiply(of([1], 'bfloat16'), 2), 'bfloat16', [2]],
    ['float32 + true', () => mx.add(of([1], 'float32'), true), 'float32', [2]],
    ['int32 + true', () => mx.add(of([1], 'int32'), true), 'int32', [2]],
    ['float32 + ∞', () => mx.add(of([1], 'float32'), Infinity), 'float32', [Infinity]],
    ['1 + 2', () => mx.add(1, 2).reshape([1]), 'float32', [3]],
    ['where(c, 1, 0)', () => mx.where(of([1, 0], 'bool_'), 1, 0), 'float32', [1, 0]],
    ['where(c, int32, 0)', () => mx.where(of([0], 'bool_'), of([7], 'int32'), 0), 'int32', [0]],
    [
      'where(c, f16, −∞)',
      () => mx.where(of([0], 'bool_'), of([7], 'float16'), -Infinity),
      'float16',
      [-Infinity],
    ],
    ['where(c, true, false)', () => mx.where(of([0, 1], 'bool_'), true, false), 'bool_', [0, 1]],
    ['clip(int32, 0, 1)', () => mx.clip(of([-3, 3], 'int32'), 0, 1), 'int32', [0, 1]],
    ['clip(f16, 0, 0.5)', () => mx.clip(of([3], 'float16'), 0, 0.5), 'float16', [0.5]],
  ])('%s', (_, call, dtype, values) => {
    mx.tidy(() => {
      const result = call();
      expect(result.dtype).toBe(dtype);
      expectNumbers(result.dataSync(), values);
    });
  });
});
