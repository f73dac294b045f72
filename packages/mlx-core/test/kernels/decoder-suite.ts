/** What decoder layers are made of besides products: norms, gated activations, rotary positions. */
import { ShapeError } from '@mlx-runners/mlx-core/errors';
import type { MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { expectNumbers, thrown } from '../expectations.js';
import { arrayOf, headsViewOf, numbers, stridedArrayOf, type Mx } from './inputs.js';
import * as reference from './reference.js';
import type { Plain, RopeOptions } from './reference.js';

const widths = [1, 2, 15, 16, 17, 33, 64, 257];

export function decoderSuite(mx: Mx): void {
  const check = (call: () => MxArray, expected: Float64Array, tolerance = 2e-6) =>
    mx.tidy(() => expectNumbers(call().dataSync(), expected, tolerance));

  normsSuite(mx, check);
  gatesSuite(mx, check);
  ropeSuite(mx);
}

type Check = (call: () => MxArray, expected: Float64Array, tolerance?: number) => void;

function normsSuite(mx: Mx, check: Check): void {
  describe('rmsNorm', () => {
    test.each(widths)('rows of %d', (columns) => {
      const [x, weight] = [numbers([3, columns], columns), numbers([columns], 2)];
      const w = arrayOf(mx, weight);
      check(() => mx.rmsNorm(arrayOf(mx, x)), reference.rmsNorm(x));
      check(() => mx.rmsNorm(arrayOf(mx, x), w), reference.rmsNorm(x, weight));
      check(() => mx.rmsNorm(stridedArrayOf(mx, x), w, 0.1), reference.rmsNorm(x, weight, 0.1));
    });

    test('over several threads, NaN only spoils its own row', () => {
      const x = numbers([300, 129], 4);
      x.data[200] = NaN;
      check(() => mx.rmsNorm(arrayOf(mx, x)), reference.rmsNorm(x));
    });
  });

  describe('addRmsNorm', () => {
    const sumOf = (x: Plain, y: Plain): Plain => ({
      shape: x.shape,
      data: x.data.map((value, i) => Math.fround(value + y.data[i])),
    });

    test.each(widths)('rows of %d', (columns) => {
      const [x, y, weight] = [1, 2, 3].map((seed) =>
        numbers(seed === 3 ? [columns] : [70, columns], seed),
      );
      for (const view of [arrayOf, stridedArrayOf]) {
        mx.tidy(() => {
          const [sum, normed] = mx.addRmsNorm(view(mx, x), view(mx, y), arrayOf(mx, weight), 1e-3);
          const both = sumOf(x, y);
          expectNumbers(normed.dataSync(), reference.rmsNorm(both, weight, 1e-3), 2e-6);
          expectNumbers(sum.dataSync(), both.data, 0);
        });
      }
    });

    test('operands that are used again keep their values', () => {
      const [x, y] = [numbers([4, 300], 1), numbers([4, 300], 2)];
      mx.tidy(() => {
        const [a, b] = [mx.add(arrayOf(mx, x), 0), mx.add(arrayOf(mx, y), 0)];
        const results = mx.addRmsNorm(a, b);
        const twice = mx.addRmsNorm(a, a);
        mx.evalSync(...results, ...twice);
        expectNumbers(results[0].dataSync(), sumOf(x, y).data);
        expectNumbers(twice[0].dataSync(), sumOf(x, x).data);
        expectNumbers(a.dataSync(), x.data, 0);
        expectNumbers(b.dataSync(), y.data, 0);
      });
    });

    test('half precision, and shapes that differ', () => {
      const [x, y] = [numbers([2, 16], 1), numbers([2, 16], 2)];
      mx.tidy(() => {
        const [a, b] = [x, y].map((each) => arrayOf(mx, each).astype('float16'));
        const [sum, normed] = mx.addRmsNorm(a, b);
        expect([sum.dtype, normed.dtype]).toEqual(['float16', 'float16']);
        expectNumbers(normed.dataSync(), reference.rmsNorm(sumOf(x, y)), 4e-3);
        expect(thrown(() => mx.addRmsNorm(a, b.reshape([32])))).toBeInstanceOf(ShapeError);
      });
    });
  });
}

function gatesSuite(mx: Mx, check: Check): void {
  const exactly = (gate: Plain, up: Plain) =>
    reference.gelu(gate).map((value, i) => value * up.data[i]);

  describe.each([
    ['swiglu', mx.swiglu, reference.swiglu],
    ['geglu', (a: MxArray, b: MxArray) => mx.geglu(a, b), reference.geglu],
    ['exact geglu', (a: MxArray, b: MxArray) => mx.geglu(a, b, false), exactly],
  ] as const)('%s', (_, op, of) => {
    test.each(widths)('rows of %d', (columns) => {
      const [gate, up] = [numbers([3, columns], 1, 6), numbers([3, columns], 2)];
      check(() => op(arrayOf(mx, gate), arrayOf(mx, up)), of(gate, up), 3e-6);
      check(() => op(stridedArrayOf(mx, gate), arrayOf(mx, up)), of(gate, up), 3e-6);
    });

    test.each([
      [2, 5, 24],
      [2, 130, 300],
    ])('halves of one array of %d x %d rows of 2 x %d', (batches, rows, columns) => {
      const shape = [batches, rows, columns];
      const [gate, up] = [numbers(shape, 1, 6), numbers(shape, 2)];
      const halves = () =>
        mx.split(mx.concatenate([arrayOf(mx, gate), arrayOf(mx, up)], -1), 2, -1);
      check(() => op(halves()[0], halves()[1]), of(gate, up), 3e-6);
    });

    test('ends and special values', () => {
      const gate = { shape: [6], data: Float64Array.of(NaN, Infinity, 0, -100, 100, 1e20) };
      const up = { shape: [6], data: Float64Array.of(1, 2, 3, 4, 5, 6) };
      const expected = Float64Array.of(NaN, Infinity, 0, 0, 500, 6e20);
      check(() => op(arrayOf(mx, gate), arrayOf(mx, up)), expected);
    });

    test('half precision, and shapes that differ', () => {
      const [gate, up] = [numbers([4, 8], 1), numbers([4, 8], 2)];
      mx.tidy(() => {
        const [a, b] = [gate, up].map((each) => arrayOf(mx, each).astype('bfloat16'));
        expect(op(a, b).dtype).toBe('bfloat16');
        expectNumbers(op(a, b).dataSync(), of(gate, up), 5e-2);
        expect(thrown(() => op(a, b.reshape([32])))).toBeInstanceOf(ShapeError);
      });
    });
  });
}

function ropeSuite(mx: Mx): void {
  const powersOf = (base: number, dims: number) => (i: number) => base ** ((-2 * i) / dims);

  /** Rounding of position, frequency and product: an error that grows with the angle. */
  const check = (call: () => MxArray, x: Plain, options: RopeOptions, farthest: number) =>
    mx.tidy(() =>
      expectNumbers(call().dataSync(), reference.rope(x, options), 2e-6 + 4e-7 * farthest),
    );

  describe('rope', () => {
    const sizes = [
      [2, 2],
      [8, 8],
      [34, 40],
      [64, 64],
      [128, 128],
      [6, 257],
    ];

    test.each(sizes)('%d of %d elements', (dims, columns) => {
      for (const [heads, positions] of [
        [1, 1],
        [3, 9],
        [2, 150],
      ]) {
        const x = numbers([2, heads, positions, columns], dims);
        for (const traditional of [false, true]) {
          const options = { dims, traditional, frequency: powersOf(10000, dims) };
          for (const view of [arrayOf, headsViewOf, stridedArrayOf]) {
            const call = () => mx.rope(view(mx, x), dims, traditional, 10000);
            check(call, x, options, positions);
          }
        }
      }
    });

    test('offsets as numbers and arrays, scale, frequencies', () => {
      const x = numbers([3, 2, 5, 16], 1);
      const freqs = { shape: [6], data: Float64Array.from([1, 2, 3, 5, 8, 700], Math.fround) };
      const options = { dims: 12, frequency: (i: number) => 1 / freqs.data[i] };
      const starts = [7, 0, 40];
      mx.tidy(() => {
        const given = arrayOf(mx, x);
        const f = arrayOf(mx, freqs);
        const seven = { ...options, offset: () => 7, scale: 0.5 };
        const own = { ...options, offset: (batch: number) => starts[batch] };
        check(() => mx.rope(given, 12, false, null, 0.5, 7, f), x, seven, 10);
        const one = mx.array(7, undefined, 'int32');
        check(() => mx.rope(given, 12, false, null, 0.5, one, f), x, seven, 10);
        check(() => mx.rope(given, 12, false, null, 0.5, one.reshape([1]), f), x, seven, 10);
        for (const dtype of ['int32', 'uint32', 'int64'] as const) {
          const offsets = mx.array(starts, undefined, dtype);
          check(() => mx.rope(given, 12, false, null, 1, offsets, f), x, own, 50);
        }
        // Every other number of a longer list: not contiguous.
        const strided = mx.slice(mx.array([7, 9, 0, 9, 40, 9], undefined, 'int32'), [0], [6], [2]);
        check(() => mx.rope(given, 12, false, null, 1, strided, f), x, own, 50);
      });
    });

    test('three axes are one head', () => {
      const x = numbers([2, 6, 10], 1);
      const options = { dims: 10, frequency: powersOf(500, 10), offset: () => 3 };
      const call = () => mx.rope(arrayOf(mx, x), 10, false, 500, 1, 3);
      check(call, { data: x.data, shape: [2, 1, 6, 10] }, options, 9);
    });

    test('far positions are MLX’s within the rounding of angles', () => {
      const [dims, base, offset] = [64, 1e6, 131000];
      const x = numbers([1, 2, 70, dims], 1, 1);
      mx.tidy(() => {
        const given = arrayOf(mx, x);
        const fused = mx.rope(given, dims, false, base, 1, offset).dataSync();
        // Five axes are left to MLX.
        const plain = mx.rope(given.reshape([1, 1, 2, 70, dims]), dims, false, base, 1, offset);
        const expected = plain.dataSync();
        for (let i = 0; i < dims / 2; i++) {
          const every = (all: typeof expected) => all.filter((_, at) => at % (dims / 2) === i);
          // MLX rounds the exponent of the frequency as well.
          const exponent = (Math.log(base) * i) / (dims / 2);
          const angle = (offset + 70) * Math.exp(-exponent);
          const tolerance = 1e-6 + 1.2e-7 * (2 + exponent) * angle;
          expectNumbers(every(fused), every(expected) as Float32Array, tolerance);
        }
      });
    });

    test('half precision, odd widths and wrong arguments', () => {
      const x = numbers([1, 2, 5, 8], 1);
      mx.tidy(() => {
        const options = { dims: 8, frequency: powersOf(10000, 8), offset: () => 5000 };
        const half = arrayOf(mx, x).astype('float16');
        expect(mx.rope(half, 8, false, 10000).dtype).toBe('float16');
        const whole = mx.rope(arrayOf(mx, x), 8, false, 10000, 1, 5000);
        check(() => whole, x, options, 5000);
        expect(thrown(() => mx.rope(half, 8))).toBeInstanceOf(ShapeError);
        expect(thrown(() => mx.rope(half.reshape([80]), 8, false, 10))).toBeInstanceOf(ShapeError);
        expect(thrown(() => mx.rope(half, 8, false, 10, 1, 1.5)).message).toContain('offset');
      });
    });
  });
}
