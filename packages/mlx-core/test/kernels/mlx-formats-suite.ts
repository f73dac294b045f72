/** Products with weights as MLX quantises them: against sums in double precision, and MLX's own. */
import type { Dtype, MxArray } from '@mlx-runners/mlx-core';
import { randomNumbers, readTensorFixture } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import { expectNumbers } from '../expectations.js';
import { unaligned } from '../unaligned-arrays.js';
import { expectWithin, fastBounds, product, type Weights } from './bounds.js';
import { arrayOf, numbers, stridedArrayOf, type Mx } from './inputs.js';

type Mode = NonNullable<Parameters<Mx['quantize']>[3]>;
type Precision = Parameters<Mx['quantizedMatmul']>[8];

/** One row, few and many: each goes another way. */
const rowCounts = [1, 2, 3, 5, 17, 70];

interface Format {
  readonly mode: Mode;
  readonly bits: number;
  readonly group: number;
  readonly dtype: Dtype;
}

const smallFloats: Format[] = [
  { mode: 'mxfp4', bits: 4, group: 32, dtype: 'float32' },
  { mode: 'nvfp4', bits: 4, group: 16, dtype: 'float32' },
  { mode: 'mxfp8', bits: 8, group: 32, dtype: 'float32' },
];
const formats: Format[] = [
  ...[2, 3, 4, 5, 6, 8].flatMap((bits) =>
    (
      [
        [32, 'float16'],
        [64, 'bfloat16'],
        [128, 'float32'],
      ] as const
    ).map(([group, dtype]) => ({ mode: 'affine' as const, bits, group, dtype })),
  ),
  ...smallFloats,
];
const names = formats.map(
  (format) =>
    [`${format.mode} ${format.bits} bits by ${format.group}, ${format.dtype}`, format] as const,
);

/** What the weights of one format are given as: codes, scales and biases or none. */
type Parts = readonly [MxArray, MxArray, MxArray | null];

function quantized(mx: Mx, w: MxArray, { mode, bits, group, dtype }: Format): Parts {
  const parts = mx.quantize(w.astype(dtype), group, bits, mode);
  return [parts[0], parts[1], parts[2] ?? null];
}

/** A float with `exponent` bits of exponent and `fraction` of fraction, the sign above them. */
function smallFloat(code: number, exponent: number, fraction: number): number {
  const bias = 2 ** (exponent - 1) - 1;
  const power = (code >> fraction) & (2 ** exponent - 1);
  const part = (code & (2 ** fraction - 1)) / 2 ** fraction;
  const size = power === 0 ? part * 2 ** (1 - bias) : (1 + part) * 2 ** (power - bias);
  const isNan = exponent === 4 && (code & 127) === 127;
  return (code >> (exponent + fraction) ? -1 : 1) * (isNan ? NaN : size);
}

/** Weights [rows, depth] in double precision, from the bytes of what stands for them. */
function valuesOf(parts: Parts, { mode, bits, group }: Format, depth: number): Weights {
  const codes = parts[0].dataSync() as Uint32Array;
  const scales = Array.from(parts[1].dataSync(), Number);
  const biases = parts[2] ? Array.from(parts[2].dataSync(), Number) : [];
  const rows = parts[0].shape[0];
  const rowBits = (codes.length / rows) * 32;
  const codeAt = (row: number, k: number): number => {
    let code = 0;
    for (let i = 0; i < bits; i++) {
      const at = row * rowBits + k * bits + i;
      code += ((codes[at >> 5] >>> (at & 31)) & 1) * 2 ** i;
    }
    return code;
  };
  const data = Array.from({ length: rows * depth }, (_, i) => {
    const code = codeAt(Math.floor(i / depth), i % depth);
    const at = Math.floor(i / group);
    if (mode === 'affine') return code * scales[at] + biases[at];
    const scale = mode === 'nvfp4' ? smallFloat(scales[at], 4, 3) : 2 ** (scales[at] - 127);
    return scale * (bits === 8 ? smallFloat(code, 4, 3) : smallFloat(code, 2, 1));
  });
  return { data, shape: [rows, depth] };
}

const bitsOf = (x: MxArray): Uint32Array => x.view('uint32').dataSync() as Uint32Array;

export function mlxFormatsSuite(mx: Mx): void {
  goldenSuite(mx);
  productSuite(mx);
  gatherSuite(mx);
  takeSuite(mx);
}

function goldenSuite(mx: Mx): void {
  const golden = readTensorFixture('mlx_quant.safetensors');
  const stored = JSON.parse(golden.metadata.formats) as Record<
    string,
    { mode: Mode; bits: number; group_size: number; dtype: Dtype }
  >;
  const arrayAt = (key: string) => {
    const { data, shape, dtype } = golden.tensor(key);
    return mx.array(data, shape).astype(dtype);
  };
  const partsOf = (key: string): Parts => [
    arrayAt(`${key}.wq`).view('uint32'),
    arrayAt(`${key}.scales`),
    golden.tensors.has(`${key}.biases`) ? arrayAt(`${key}.biases`) : null,
  ];

  describe('goldens of MLX', () => {
    test.each(Object.entries(stored))(
      '%s, x in float32',
      (key, { mode, bits, group_size: group }) => {
        for (const rows of rowCounts) {
          const x = numbers([rows, 256], rows);
          mx.tidy(() => {
            const [wq, s, b] = partsOf(key);
            const w = valuesOf([wq, s, b], { mode, bits, group, dtype: 'float32' }, 256);
            const { values, sizes } = product(x, w);
            const y = mx.quantizedMatmul(arrayOf(mx, x), wq, s, b, true, group, bits, mode);
            expect([y.dtype, y.shape]).toEqual(['float32', [rows, 24]]);
            const bounds = sizes.map((size) => 2e-6 * size);
            expectWithin(y.dataSync(), values, bounds);
          });
        }
      },
    );

    const inFloat32 = Object.entries(stored).filter(([, { dtype }]) => dtype === 'float32');
    test.each(inFloat32)('%s as MLX has it', (key, { mode, bits, group_size: group }) => {
      mx.tidy(() => {
        const [wq, s, b] = partsOf(key);
        const dequant = mx.dequantize(wq, s, b, group, bits, mode, null, 'float32');
        expectNumbers(dequant.dataSync(), golden.floats(`${key}.dequant`), 1e-6);
        const rows = mx.quantizedTake(wq, s, b, mx.arange(0, 24, 1, 'int32'), group, bits, mode);
        if (mode === 'affine') {
          expectNumbers(rows.dataSync(), golden.floats(`${key}.dequant`), 1e-6);
        } else {
          expect(bitsOf(rows)).toEqual(bitsOf(arrayAt(`${key}.dequant`)));
        }
        for (const [x, y, transpose] of [
          ['x', 'y', true],
          ['x2', 'y_nt', false],
        ] as const) {
          const got = mx.quantizedMatmul(arrayAt(x), wq, s, b, transpose, group, bits, mode);
          expectNumbers(got.dataSync(), golden.floats(`${key}.${y}`), 1e-4);
        }
      });
    });
  });
}

/** Roundings of a result to its dtype. */
const resultStep: Partial<Record<Dtype, number>> = {
  float32: 0,
  float16: 2 ** -11,
  bfloat16: 2 ** -8,
};

function productSuite(mx: Mx): void {
  describe.each(names)('%s', (_, format) => {
    const { mode, bits, group } = format;
    const depth = 384;
    const weights = numbers([21, depth], bits + group);

    test('products, exact and fast', () => {
      mx.tidy(() => {
        const [wq, s, b] = quantized(mx, arrayOf(mx, weights), format);
        const w = valuesOf([wq, s, b], format, depth);
        for (const rows of rowCounts) {
          const x = numbers([rows, depth], rows);
          const { values, sizes } = product(x, w);
          const multiply = (precision: Precision) =>
            mx
              .quantizedMatmul(arrayOf(mx, x), wq, s, b, true, group, bits, mode, precision)
              .dataSync();
          const bounds = fastBounds(x, w);
          const exact = multiply('exact');
          expectWithin(
            exact,
            values,
            sizes.map((size) => 2e-6 * size),
          );
          const fast = multiply('fast');
          expectWithin(
            fast,
            values,
            sizes.map((size, i) => 3e-5 * size + bounds[i]),
          );
          expect(fast.every((value, i) => value === exact[i])).toBe(mode === 'mxfp8');
        }
      });
    });

    test.each(['float16', 'bfloat16'] as const)('x in %s', (dtype) => {
      mx.tidy(() => {
        const [wq, s, b] = quantized(mx, arrayOf(mx, weights), format);
        const w = valuesOf([wq, s, b], format, depth);
        for (const rows of [1, 20]) {
          const given = arrayOf(mx, numbers([rows, depth], rows)).astype(dtype);
          const x = { data: Float64Array.from(given.dataSync(), Number), shape: given.shape };
          const { values, sizes } = product(x, w);
          const y = mx.quantizedMatmul(given, wq, s, b, true, group, bits, mode);
          const same = mode !== 'affine' || format.dtype === dtype;
          expect([y.dtype, y.shape]).toEqual([same ? dtype : 'float32', [rows, 21]]);
          const step = resultStep[y.dtype]!;
          const bounds = values.map((value, i) => step * Math.abs(value) + 2e-6 * sizes[i] + 1e-7);
          expectWithin(y.astype('float32').dataSync(), values, bounds);
        }
      });
    });

    test('unaligned, x strided and with more axes, with bias', () => {
      const x = numbers([2, 3, depth], 4);
      const bias = numbers([21], 5);
      mx.tidy(() => {
        const [wq, s, b] = quantized(mx, arrayOf(mx, weights), format);
        const { values, sizes } = product(x, valuesOf([wq, s, b], format, depth));
        const moved = unaligned(mx, b ? [wq, s, b] : [wq, s]);
        const y = mx.quantizedLinear(
          stridedArrayOf(mx, x),
          moved[0],
          moved[1],
          moved[2] ?? null,
          arrayOf(mx, bias),
          group,
          bits,
          mode,
        );
        expect(y.shape).toEqual([2, 3, 21]);
        expectWithin(
          y.dataSync(),
          values.map((value, i) => value + bias.data[i % 21]),
          sizes.map((size) => 2e-6 * (size + 2)),
        );
      });
    });
  });

  test('a bias decides on the dtype, too', () => {
    mx.tidy(() => {
      const format = formats[0];
      const [wq, s, b] = quantized(mx, arrayOf(mx, numbers([4, 64], 1)), format);
      const x = arrayOf(mx, numbers([2, 64], 2)).astype('float16');
      const linear = (bias: MxArray) =>
        mx.quantizedLinear(x, wq, s, b, bias, format.group, format.bits);
      expect(linear(mx.ones([4], 'float16')).dtype).toBe('float16');
      expect(linear(mx.ones([4])).dtype).toBe('float32');
      const plain = mx.quantizedLinear(x, wq, s, b, null, format.group, format.bits);
      expectNumbers(
        linear(mx.ones([4])).dataSync(),
        Array.from(plain.astype('float32').dataSync(), Number).map((value) => value + 1),
        2e-3,
      );
    });
  });

  test('rows of 48 small floats are left to MLX', () => {
    mx.tidy(() => {
      const format = smallFloats[1];
      const [wq, s, b] = quantized(mx, arrayOf(mx, numbers([6, 48], 1)), format);
      const x = numbers([3, 48], 2);
      const { values } = product(x, valuesOf([wq, s, b], format, 48));
      const y = mx.quantizedLinear(arrayOf(mx, x), wq, s, null, null, 16, 4, 'nvfp4', 'fast');
      expectNumbers(y.dataSync(), values, 1e-5);
    });
  });
}

function gatherSuite(mx: Mx): void {
  describe('gatherQmm', () => {
    /** MLX's own: it is left what has biases of another dtype than scales. */
    const asByMlx = (biases: MxArray) => biases.astype('float32');
    const random = randomNumbers(11);
    const draw = (low: number, high: number) => low + Math.floor(random() * (high - low + 1));
    const pick = <T>(list: readonly T[]): T => list[draw(0, list.length - 1)];
    const indices = (shape: number[], size: number) =>
      mx.array(
        Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => draw(0, size - 1)),
        shape,
        pick(['uint32', 'int32', 'int64']),
      );

    test('random cases, as MLX has them', () => {
      for (let i = 0; i < 40; i++) {
        mx.tidy(() => {
          const [bits, group] = [pick([2, 3, 4, 5, 6, 8]), pick([32, 64])];
          const [experts, columns, depth] = [draw(1, 5), draw(1, 20), 64 * draw(1, 3)];
          const batch = pick([[3], [2, 2], [4, 1], []]);
          const blocks = batch.reduce((a, b) => a * b, 1);
          const w = arrayOf(mx, numbers([experts, columns, depth], i));
          const [wq, s, b] = mx.quantize(w.astype('float16'), group, bits);
          const x = arrayOf(mx, numbers([...batch, pick([1, 1, 3]), depth], i + 1));
          const lhs = pick([null, indices([4], blocks), indices([3, 1], blocks)]);
          const rhs =
            lhs && draw(0, 3) === 0 && experts === 1
              ? null
              : indices(lhs || batch.length === 0 ? pick([[4], [2, 3, 4]]) : batch, experts);
          const multiply = (biases: MxArray, precision: Precision) =>
            mx.gatherQmm(
              x,
              wq,
              s,
              biases,
              lhs,
              rhs,
              true,
              group,
              bits,
              'affine',
              null,
              false,
              precision,
            );
          const expected = multiply(asByMlx(b), 'exact');
          const exact = multiply(b, 'exact');
          expect([exact.dtype, exact.shape]).toEqual([expected.dtype, expected.shape]);
          expectNumbers(exact.dataSync(), expected.dataSync() as Float32Array, 2e-4);
          const fast = multiply(b, 'fast');
          expectNumbers(fast.dataSync(), expected.dataSync() as Float32Array, 0.5);
        });
      }
    });

    test.each(['float16', 'bfloat16'] as const)('every format, x in %s', (dtype) => {
      for (const format of formats) {
        mx.tidy(() => {
          const { mode, bits, group } = format;
          const w = arrayOf(mx, numbers([3 * 7, 128], 1));
          const [wq, s, b] = quantized(mx, w, format);
          const experts = (x: MxArray) => x.reshape([3, 7, -1]);
          const x = arrayOf(mx, numbers([4, 2, 128], 2)).astype(dtype);
          const ids = mx.array([2, 0, -1, 2], null, 'int32');
          const got = mx.gatherQmm(
            x,
            experts(wq),
            experts(s),
            b && experts(b),
            null,
            ids,
            true,
            group,
            bits,
            mode,
          );
          const all = mx.quantizedMatmul(x, wq, s, b, true, group, bits, mode);
          expect(got.dtype).toBe(all.dtype);
          const chosen = mx.takeAlongAxis(
            all.reshape([4, 2, 3, 7]),
            mx.array([2, 0, 2, 2], [4, 1, 1, 1], 'int32'),
            2,
          );
          const expected = chosen.reshape([4, 2, 7]).astype('float32').dataSync();
          expectNumbers(
            got.astype('float32').dataSync(),
            expected as Float32Array,
            dtype === 'float16' ? 2e-3 : 1e-2,
          );
        });
      }
    });

    test('indices that turn out to be outside give NaN there alone', () => {
      mx.tidy(() => {
        const [wq, s, b] = mx.quantize(arrayOf(mx, numbers([3, 5, 64], 1)), 64, 4);
        const x = arrayOf(mx, numbers([2, 1, 64], 2));
        const later = mx.add(mx.array([0, 3, 1], null, 'int32'), 0); // computed only now
        const left = mx.add(mx.array([1, 0, -3], null, 'int32'), 0);
        const y = mx.gatherQmm(x, wq, s, b, left, later, true, 64, 4).dataSync() as Float32Array;
        expect(Array.from(y, Number.isNaN)).toEqual(Array.from(y, (_, i) => i >= 5));
      });
    });

    test('no pairs', () => {
      mx.tidy(() => {
        const [wq, s, b] = mx.quantize(arrayOf(mx, numbers([3, 5, 64], 1)), 64, 4);
        const none = mx.zeros([0], 'uint32');
        const y = mx.gatherQmm(mx.ones([2, 1, 64]), wq, s, b, none, none, true, 64, 4);
        expect([y.shape, y.dataSync().length]).toEqual([[0, 1, 5], 0]);
      });
    });
  });
}

function takeSuite(mx: Mx): void {
  describe('quantizedTake', () => {
    const take = ([wq, s, b]: Parts, ids: MxArray, { mode, bits, group }: Format) =>
      mx.quantizedTake(wq, s, b, ids, group, bits, mode);

    test.each(names)('%s', (_, format) => {
      mx.tidy(() => {
        const parts = quantized(mx, arrayOf(mx, numbers([6, 256], 3)), format);
        const w = valuesOf(parts, format, 256);
        const rows = take(parts, mx.array([[5], [0], [-2]], null, 'int32'), format);
        expect([rows.dtype, rows.shape]).toEqual(['float32', [3, 1, 256]]);
        const expected = [5, 0, 4].flatMap((row) =>
          Array.from(w.data).slice(row * 256, (row + 1) * 256),
        );
        expectNumbers(rows.dataSync(), expected, 1e-6);
        expect(take(parts, mx.zeros([2, 0], 'int32'), format).shape).toEqual([2, 0, 256]);
        const later = mx.add(mx.array([6, 1], null, 'int32'), 0);
        expect(Array.from(take(parts, later, format).dataSync(), Number.isNaN)).toEqual(
          Array.from({ length: 512 }, (__, i) => i < 256),
        );
      });
    });

    const inFloat32 = [2, 3, 5, 6].map(
      (bits) => ({ mode: 'affine', bits, group: 64, dtype: 'float32' }) as const,
    );
    test.each(inFloat32)('$bits bits to the bit, as dequantize', (format) => {
      mx.tidy(() => {
        const parts = quantized(mx, arrayOf(mx, numbers([40, 256], 3)), format);
        const rows = take(parts, mx.arange(0, 40, 1, 'int32'), format);
        expect(bitsOf(rows)).toEqual(bitsOf(mx.dequantize(...parts, 64, format.bits)));
      });
    });

    test.each(smallFloats)('$mode: every code with every scale, as dequantize', (format) => {
      const { mode, bits, group } = format;
      const bytes = (256 * bits) / 8;
      mx.tidy(() => {
        // All pairs of nibbles, and all bytes, in a row; a row for every scale.
        const row = Array.from({ length: bytes }, (_, i) => (bits === 8 ? i : (i * 37) % 256));
        const wq = mx.array(
          Uint8Array.from({ length: 256 * bytes }, (_, i) => row[i % bytes]),
          [256, bytes],
        );
        const scales = mx.repeat(mx.arange(0, 256, 1, 'uint8').reshape([256, 1]), 256 / group, 1);
        const parts: Parts = [wq.view('uint32'), scales, null];
        const plain = (x: MxArray) => {
          const nan = mx.notEqual(x, x); // whose bits are free
          return bitsOf(mx.where(nan, mx.array([NaN]), x));
        };
        const rows = take(parts, mx.arange(0, 256, 1, 'int32'), format);
        expect(plain(rows)).toEqual(
          plain(mx.dequantize(...parts, group, bits, mode, null, 'float32')),
        );
      });
    });
  });
}
