/**
 * One suite for every instruction set. The library picks its kernels once in a process, so each
 * level has a test file of its own, which vitest runs in a process of its own.
 */
import type { MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { expectNumbers } from '../expectations.js';
import { unaligned } from '../unaligned-arrays.js';
import { attentionSuite } from './attention-suite.js';
import { blocksSuite } from './blocks-suite.js';
import { decoderSuite } from './decoder-suite.js';
import { halfWeightsSuite } from './half-weights-suite.js';
import { arrayOf, hasInstructionSet, numbers, stridedArrayOf, type Mx } from './inputs.js';
import { mlxFormatsSuite } from './mlx-formats-suite.js';
import * as reference from './reference.js';
import type { Plain, Sums } from './reference.js';

export async function kernelSuite(level: string): Promise<void> {
  if (!hasInstructionSet(level)) {
    test(`kernels for ${level}`, (context) => {
      console.warn(`SKIPPED: this CPU has no ${level}, its kernels are not tested here.`);
      context.skip(`this CPU has no ${level}`);
    });
    return;
  }
  process.env.MLX_RUNNERS_SIMD = level;
  const { mx } = await import('@mlx-runners/mlx-core');

  test(`${level} is in use`, () => expect(mx.buildInfo().simd).toBe(level));
  rowsSuite(mx);
  halvesSuite(mx);
  productsSuite(mx);
  attentionSuite(mx);
  decoderSuite(mx);
  halfWeightsSuite(mx);
  blocksSuite(mx);
  mlxFormatsSuite(mx);
  unalignedSuite(mx);
}

/** Column counts around the widths of vectors and of whole register tiles. */
const widths = [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257];

function check(mx: Mx, call: () => MxArray, expected: Float64Array, tolerance: number): void {
  mx.tidy(() => expectNumbers(call().dataSync(), expected, tolerance));
}

function rowsSuite(mx: Mx): void {
  describe('softmax', () => {
    test.each(widths)('rows of %d', (columns) => {
      const x = numbers([3, columns], columns, 20);
      check(mx, () => mx.softmax(arrayOf(mx, x), -1), reference.softmax(x), 2e-6);
      check(mx, () => mx.softmax(stridedArrayOf(mx, x), 1), reference.softmax(x), 2e-6);
    });

    test('many rows on several threads', () => {
      const x = numbers([2, 301, 129], 5);
      check(mx, () => mx.softmax(arrayOf(mx, x), -1), reference.softmax(x), 2e-6);
    });

    test('large values don’t overflow, −∞ gives 0', () => {
      const x = { shape: [1, 5], data: Float64Array.of(1e30, 1e30, -1e30, -Infinity, 0) };
      check(mx, () => mx.softmax(arrayOf(mx, x), -1), Float64Array.of(0.5, 0.5, 0, 0, 0), 1e-7);
    });

    test.each([1, 5, 16, 33])('NaN and rows of −∞ only spoil their own row of %d', (columns) => {
      const x = numbers([3, columns], 3);
      x.data[columns - 1] = NaN;
      x.data.fill(-Infinity, 2 * columns);
      const expected = reference.softmax(x);
      expected.fill(NaN, 0, columns);
      expected.fill(NaN, 2 * columns);
      check(mx, () => mx.softmax(arrayOf(mx, x), -1), expected, 2e-6);
    });
  });

  describe('gelu', () => {
    test.each(widths)('%d elements', (size) => {
      const x = numbers([size], size, 6);
      check(mx, () => mx.gelu(arrayOf(mx, x)), reference.gelu(x), 1e-6);
    });

    test('strided, over several threads', () => {
      const x = numbers([130, 301], 9, 4);
      check(mx, () => mx.gelu(stridedArrayOf(mx, x)), reference.gelu(x), 1e-6);
    });

    test('ends and special values', () => {
      const data = Float64Array.of(NaN, Infinity, 0, -40, 40, 1e30, -1e30, 1e-30);
      const x = { data, shape: [data.length] };
      check(mx, () => mx.gelu(arrayOf(mx, x)), reference.gelu(x), 1e-6);
    });
  });

  describe('layerNorm', () => {
    test.each(widths)('rows of %d', (columns) => {
      const x = numbers([3, columns], columns);
      const weight = numbers([columns], 2);
      const bias = numbers([columns], 3);
      const [w, b] = [arrayOf(mx, weight), arrayOf(mx, bias)];
      const plain = reference.layerNorm(x);
      // One column normalises to 0, and what rounding leaves of it is scaled up.
      check(mx, () => mx.layerNorm(arrayOf(mx, x)), plain, 1e-5);
      const both = reference.layerNorm(x, weight, bias);
      check(mx, () => mx.layerNorm(arrayOf(mx, x), w, b), both, 1e-5);
      check(mx, () => mx.layerNorm(stridedArrayOf(mx, x), w, b), both, 1e-5);
      const scaled = reference.layerNorm(x, weight, undefined, 0.1);
      check(mx, () => mx.layerNorm(arrayOf(mx, x), w, null, 0.1), scaled, 1e-5);
      const shifted = reference.layerNorm(x, undefined, bias);
      check(mx, () => mx.layerNorm(arrayOf(mx, x), null, b), shifted, 1e-5);
    });

    test('a large mean costs no precision', () => {
      const x = numbers([2, 384], 4);
      for (let i = 0; i < x.data.length; i++) x.data[i] = Math.fround(x.data[i] + 1000);
      check(mx, () => mx.layerNorm(arrayOf(mx, x)), reference.layerNorm(x), 2e-4);
    });

    test('NaN only spoils its own row', () => {
      const x = numbers([2, 20], 4);
      x.data[3] = NaN;
      check(mx, () => mx.layerNorm(arrayOf(mx, x)), reference.layerNorm(x), 1e-5);
    });
  });

  test('an input that is used again keeps its values', () => {
    const x = numbers([4, 300], 11);
    const ops = [
      (input: MxArray) => mx.softmax(input, -1),
      (input: MxArray) => mx.gelu(input),
      (input: MxArray) => mx.layerNorm(input),
    ];
    for (const op of ops) {
      mx.tidy(() => {
        const input = mx.add(arrayOf(mx, x), 0);
        const output = op(input);
        const sum = mx.add(output, input);
        mx.evalSync(sum, output);
        const expected = (output.dataSync() as Float32Array).map((value, i) => value + x.data[i]);
        expectNumbers(sum.dataSync(), expected, 1e-6);
        expectNumbers(input.dataSync(), x.data);
      });
    }
  });

  test('nothing gives nothing', () => {
    mx.tidy(() => {
      for (const shape of [[0, 4], [3, 0], [0]]) {
        const x = mx.zeros(shape);
        expect(mx.gelu(x).shape).toEqual(shape);
        expect(mx.softmax(x, -1).dataSync()).toEqual(new Float32Array(0));
      }
      expect(mx.layerNorm(mx.zeros([0, 4])).shape).toEqual([0, 4]);
    });
  });
}

/** float16 has 11 significant bits, bfloat16 8; several roundings add up. */
const halves = [
  ['float16', 4e-3],
  ['bfloat16', 4e-2],
] as const;

function halvesSuite(mx: Mx): void {
  describe.each(halves)('%s keeps its dtype and precision', (dtype, tolerance) => {
    const half = (plain: Plain) => arrayOf(mx, plain).astype(dtype);
    const x = numbers([2, 3, 16], 1, 1);
    const weight = numbers([5, 16], 2, 1);
    const heads = numbers([1, 2, 3, 16], 3, 1);
    const filter = { data: weight.data.subarray(0, 48), shape: [1, 3, 16] };
    const row = { data: weight.data.subarray(0, 16), shape: [16] };

    test.each<[string, () => MxArray, () => Float64Array]>([
      ['softmax', () => mx.softmax(half(x), -1), () => reference.softmax(x)],
      ['gelu', () => mx.gelu(half(x)), () => reference.gelu(x)],
      [
        'layerNorm',
        () => mx.layerNorm(half(x), half(row), half(row)),
        () => reference.layerNorm(x, row, row),
      ],
      ['linear', () => mx.linear(half(x), half(weight)), () => reference.linear(x, weight).values],
      [
        'conv1d',
        () => mx.conv1d(half(x), half(filter), 1, 1),
        () => reference.conv1d(x, filter, 1, 1).values,
      ],
      [
        'scaledDotProductAttention',
        () => mx.scaledDotProductAttention(half(heads), half(heads), half(heads), 0.25),
        () => reference.attention({ q: heads, k: heads, v: heads, scale: 0.25 }),
      ],
    ])('%s', (_, call, expected) => {
      mx.tidy(() => {
        const result = call();
        expect(result.dtype).toBe(dtype);
        expectNumbers(result.dataSync(), expected(), tolerance);
      });
    });
  });
}

/** Rounding errors are proportional to the sum of the products' sizes. */
function checkSums(mx: Mx, call: () => MxArray, { values, sizes }: Sums): void {
  const got = mx.tidy(() => call().dataSync()) as Float32Array;
  expect(got.length).toBe(values.length);
  const worst = got.reduce(
    (most, value, i) => Math.max(most, Math.abs(value - values[i]) / (sizes[i] + 1e-30)),
    0,
  );
  expect(worst).toBeLessThan(1e-6);
}

function productsSuite(mx: Mx): void {
  describe('linear', () => {
    const rows = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 40];
    const sizes = [
      [1, 1],
      [5, 7],
      [17, 33],
      [65, 16],
      [3, 300],
      [129, 31],
    ];
    const cases = rows.flatMap((m) => sizes.map(([n, k]) => [m, n, k] as const));

    test.each(cases)('%d rows, %d columns, depth %d', (m, n, k) => {
      const [x, weight, bias] = [numbers([m, k], 1), numbers([n, k], 2), numbers([n], 3)];
      const [w, b] = [arrayOf(mx, weight), arrayOf(mx, bias)];
      checkSums(mx, () => mx.linear(arrayOf(mx, x), w), reference.linear(x, weight));
      checkSums(mx, () => mx.linear(arrayOf(mx, x), w, b), reference.linear(x, weight, bias));
    });

    test('more than one batch axis, strided input and weight', () => {
      const [x, weight] = [numbers([2, 3, 4, 19], 1), numbers([21, 19], 2)];
      const call = () => mx.linear(stridedArrayOf(mx, x), stridedArrayOf(mx, weight));
      checkSums(mx, call, reference.linear(x, weight));
      expect(mx.tidy(call).shape).toEqual([2, 3, 4, 21]);
    });

    test('a vector, and a bias for every element', () => {
      const [x, weight, bias] = [numbers([19], 1), numbers([21, 19], 2), numbers([21], 3)];
      const parts = () => [x, weight, bias].map((each) => arrayOf(mx, each));
      checkSums(
        mx,
        () => mx.linear(parts()[0], parts()[1], parts()[2]),
        reference.linear(x, weight, bias),
      );
    });

    test.each([3, 30])('NaN in one of %d rows only spoils that row', (m) => {
      const [x, weight] = [numbers([m, 40], 1), numbers([20, 40], 2)];
      x.data[1] = NaN;
      check(
        mx,
        () => mx.linear(arrayOf(mx, x), arrayOf(mx, weight)),
        reference.linear(x, weight).values,
        1e-5,
      );
    });

    test('no rows, no columns, no depth', () => {
      mx.tidy(() => {
        expect(mx.linear(mx.zeros([0, 4]), mx.zeros([3, 4])).shape).toEqual([0, 3]);
        expect(mx.linear(mx.zeros([2, 4]), mx.zeros([0, 4])).shape).toEqual([2, 0]);
        const bias = mx.array([1, 2, 3]);
        const flat = mx.linear(mx.zeros([2, 0]), mx.zeros([3, 0]), bias).dataSync();
        expect(flat).toEqual(Float32Array.of(1, 2, 3, 1, 2, 3));
      });
    });
  });

  describe('conv1d', () => {
    const cases = [1, 3, 5].flatMap((width) =>
      [1, 2, 3].flatMap((stride) => [0, 1, 2].map((padding) => [width, stride, padding] as const)),
    );

    test.each(cases)('kernel %d, stride %d, padding %d', (width, stride, padding) => {
      for (const [batches, length, channels, columns] of [
        [1, 5, 1, 1],
        [2, 29, 3, 7],
        [1, 40, 16, 33],
      ]) {
        const x = numbers([batches, length, channels], length);
        const weight = numbers([columns, width, channels], 2);
        checkSums(
          mx,
          () => mx.conv1d(arrayOf(mx, x), arrayOf(mx, weight), stride, padding),
          reference.conv1d(x, weight, stride, padding),
        );
      }
    });

    test('strided input, as from [B, C, T]', () => {
      const [x, weight] = [numbers([2, 30, 8], 1), numbers([9, 3, 8], 2)];
      checkSums(
        mx,
        () => mx.conv1d(stridedArrayOf(mx, x), arrayOf(mx, weight), 2, 1),
        reference.conv1d(x, weight, 2, 1),
      );
    });

    test('NaN outside of the padding reaches only the windows that see it', () => {
      const [x, weight] = [numbers([1, 12, 2], 1), numbers([3, 3, 2], 2)];
      x.data[0] = NaN;
      check(
        mx,
        () => mx.conv1d(arrayOf(mx, x), arrayOf(mx, weight), 1, 1),
        reference.conv1d(x, weight, 1, 1).values,
        1e-5,
      );
    });

    test('an empty batch', () => {
      mx.tidy(() => {
        expect(mx.conv1d(mx.zeros([0, 5, 2]), mx.zeros([3, 3, 2])).shape).toEqual([0, 3, 3]);
      });
    });
  });
}

function unalignedSuite(mx: Mx): void {
  test.each<[string, (...operands: MxArray[]) => MxArray, number[][]]>([
    ['softmax', (x) => mx.softmax(x, -1), [[5, 67]]],
    ['gelu', mx.gelu, [[5, 67]]],
    ['layerNorm', (x, w, b) => mx.layerNorm(x, w, b), [[5, 67], [67], [67]]],
    ['rmsNorm', (x, w) => mx.rmsNorm(x, w), [[5, 67], [67]]],
    ['addRmsNorm', (x, y, w) => mx.addRmsNorm(x, y, w)[1], [[5, 67], [5, 67], [67]]],
    [
      'swiglu',
      mx.swiglu,
      [
        [5, 67],
        [5, 67],
      ],
    ],
    ['rope', (x, freqs) => mx.rope(x, 34, true, null, 1, 7, freqs), [[1, 3, 5, 40], [17]]],
    ['linear, one row', (x, w, b) => mx.linear(x, w, b), [[1, 67], [33, 67], [33]]],
    ['linear, many rows', (x, w, b) => mx.linear(x, w, b), [[37, 67], [33, 67], [33]]],
    [
      'conv1d',
      (x, w) => mx.conv1d(x, w, 1, 1),
      [
        [1, 40, 17],
        [19, 3, 17],
      ],
    ],
    [
      'attention',
      (q, k, v) => mx.scaledDotProductAttention(q, k, v, 0.125),
      [
        [1, 2, 5, 64],
        [1, 2, 33, 64],
        [1, 2, 33, 64],
      ],
    ],
  ])('%s takes operands from odd addresses', (_, kernel, shapes) => {
    mx.tidy(() => {
      const operands = shapes.map((shape, i) => arrayOf(mx, numbers(shape, i)));
      const expected = kernel(...operands).dataSync();
      expect(kernel(...unaligned(mx, operands)).dataSync()).toEqual(expected);
    });
  });
}
