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

type Mode = Parameters<typeof mx.quantize>[3];
type Call = (
  w: MxArray,
  scales: MxArray,
  biases: MxArray | null,
  groupSize?: number,
  bits?: number,
  mode?: Mode,
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
      () => call(codes, scales, biases, 64, 4, 'int4' as Mode),
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
    [
      'codes in rows of no whole groups',
      () => call(codes, scales, biases, 64, 5),
      ShapeError,
      /rows of w, of 16 numbers of 32 bits, don't hold whole groups: with 5 bits and groups of 64 these have 10/,
    ],
    [
      'scales of another dtype',
      () => call(codes, scales.astype('float64'), biases, 64, 4),
      DtypeError,
      /scales has to be of dtype float32, float16 or bfloat16/,
    ],
    [
      'biases of another dtype',
      () => call(codes, scales, scales.astype('int32'), 64, 4),
      DtypeError,
      /biases has to be of dtype float32/,
    ],
    [
      'scales of small floats that are numbers',
      () => call(floatCodes, mx.ones(floatScales.shape), null, 32, 4, 'mxfp4'),
      DtypeError,
      /scales of mode 'mxfp4' have to be uint8/,
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
      () => mx.quantizedMatmul(x, codes, scales, biases, true, 64, 4, 'affine', 'exakt' as 'exact'),
      DtypeError,
      /precision has to be 'exact' or 'fast'/,
    ],
    [
      'the same without transpose',
      () => mx.quantizedMatmul(x, codes, scales, biases, false, 64, 4, 'affine', '' as 'exact'),
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
    [
      'indices into no matrices, yet to be computed',
      () => {
        const none = mx.zeros([0, 2, 2]);
        const id = mx.add(index(0), 0);
        return mx.gatherQmm(x, mx.zeros([0, 2, 16], 'uint32'), none, none, null, id);
      },
      ShapeError,
      /every index is outside an axis of size 0/,
    ],
    [
      'indices into no rows, yet to be computed',
      () => {
        const none = mx.zeros([0, 2]);
        return mx.quantizedTake(mx.zeros([0, 16], 'uint32'), none, none, mx.add(index(0), 0));
      },
      ShapeError,
      /every index is outside an axis of size 0/,
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

describe('indices yet to be computed, where MLX multiplies', () => {
  const [ws, ss, bs] = experts;
  const bad = [3, -4, 2 ** 31 - 1, -(2 ** 31)];

  test('outside of the matrices of w they give NaN, inside their products', () => {
    mx.tidy(() => {
      const narrow = mx.ones([1, 2]);
      const product = (id: MxArray) =>
        mx.gatherQmm(narrow, ws, ss, bs, null, id, false).reshape([-1, 128]);
      const lazy = product(mx.add(index(1, ...bad, -3), 0));
      const known = product(index(1, 0));
      expect(lazy.shape).toEqual([6, 128]);
      expect(lazy.slice([0, 0], [1, 128]).dataSync()).toEqual(
        known.slice([0, 0], [1, 128]).dataSync(),
      );
      expect(lazy.slice([1, 0], [5, 128]).dataSync()).toEqual(new Float32Array(512).fill(NaN));
      expect(lazy.slice([5, 0], [6, 128]).dataSync()).toEqual(
        known.slice([1, 0], [2, 128]).dataSync(),
      );
    });
  });

  test('outside of the matrices of x they give NaN, in every dtype', () => {
    mx.tidy(() => {
      for (const dtype of ['float32', 'float16', 'bfloat16'] as const) {
        const [s, b] = [ss.astype(dtype), bs.astype(dtype)];
        const x = mx.ones([2, 1, 2], dtype);
        const lazy = mx.add(index(0, 2, -1), 0);
        const y = mx.gatherQmm(x, ws, s, b, lazy, index(0, 0, 0), false);
        expect(y.dtype).toBe(dtype);
        const nan = mx.isnan(y).reshape([3, 128]).all([1]);
        expect(Array.from(nan.dataSync(), Number)).toEqual([0, 1, 0]);
      }
    });
  });
});

const factors = ['float64', 'complex64'] as const;
const blocks = mx.blockQuantize(w, 'Q8_0');
const blockExperts = blocks.reshape([3, 2, -1]);

describe('several matrices', () => {
  const few = mx.quantize(w.slice([0, 0], [2, 128]), 64, 4);
  const lists = [0, 1, 2].map((i) => [[codes, scales, biases][i], few[i]]);
  const bias = [mx.ones([6]), mx.ones([2])];

  test.each([1, 3, 40])('%d rows are those of one matrix at a time', (rows) => {
    const many = mx.tidy(() => mx.randomNormal(mx.randomKey(2), [rows, 128]));
    for (const dtype of ['float32', 'bfloat16'] as const) {
      for (const precision of ['exact', 'fast'] as const) {
        mx.tidy(() => {
          const x = many.astype(dtype);
          const [ws, ss, bs] = lists;
          // Of one format, or of two.
          const [scales, biases] = [ss, bs].map(([first, second]) => [first, second.astype(dtype)]);
          const together = mx.quantizedLinears(
            x,
            ws,
            scales,
            biases,
            bias,
            64,
            4,
            'affine',
            precision,
          );
          const each = ws.map((one, i) =>
            mx.quantizedLinear(x, one, scales[i], biases[i], bias[i], 64, 4, 'affine', precision),
          );
          expect(together.map((y) => y.dtype)).toEqual(each.map((y) => y.dtype));
          expect(together.map((y) => y.dataSync())).toEqual(each.map((y) => y.dataSync()));
        });
      }
    }
  });

  test('in modes without biases', () => {
    mx.tidy(() => {
      const [ws, ss] = [
        [floatCodes, floatCodes],
        [floatScales, floatScales],
      ];
      const [a, b] = mx.quantizedLinears(x, ws, ss, null, null, 32, 4, 'mxfp4');
      const alone = mx.quantizedLinear(x, floatCodes, floatScales, null, null, 32, 4, 'mxfp4');
      expect(a.dataSync()).toEqual(alone.dataSync());
      expect(b.dataSync()).toEqual(alone.dataSync());
    });
  });

  test.each<[string, () => unknown, RegExp]>([
    ['no matrix', () => mx.quantizedLinears(x, [], [], []), /at least one matrix/],
    [
      'fewer scales',
      () => mx.quantizedLinears(x, lists[0], [scales], lists[2]),
      /scales has to have an array for each matrix of w, 2, not 1/,
    ],
    ['no biases', () => mx.quantizedLinears(x, lists[0], lists[1]), /need biases/],
    [
      'a bias too many',
      () => mx.quantizedLinears(x, ...(lists as [MxArray[], MxArray[], MxArray[]]), [...bias, x]),
      /bias has to have an array for each matrix of w, 2, not 3/,
    ],
  ])('%s', (_, call, message) => {
    mx.tidy(() => {
      const error = thrown(call);
      expect(error).toBeInstanceOf(ShapeError);
      expect(error.message).toMatch(message);
    });
  });
});

test('scales and biases may be of two dtypes', () => {
  mx.tidy(() => {
    const halves = biases.astype('float16');
    const same = halves.astype('float32');
    // Yet to be computed, and partly outside.
    const rows = (b: MxArray) =>
      mx.quantizedTake(codes, scales, b, mx.add(index(1, 6, -1), 0)).dataSync();
    expect(rows(halves)).toEqual(rows(same));
    expect(rows(halves).slice(128, 256)).toEqual(new Float32Array(128).fill(NaN));
  });
});

describe('dtypes of what is multiplied', () => {
  const calls: Record<string, (a: MxArray) => MxArray | MxArray[]> = {
    'x of blockLinear': (a) => mx.blockLinear(a, blocks, 'Q8_0'),
    'x of blockGatherLinear': (a) => mx.blockGatherLinear(a, blockExperts, index(0, 1), 'Q8_0'),
    'x of quantizedMatmul': (a) => mx.quantizedMatmul(a, codes, scales, biases),
    'x of quantizedLinear': (a) => mx.quantizedLinear(a, codes, scales, biases),
    'x of gatherQmm': (a) => mx.gatherQmm(a, ...experts3(), null, index(0)),
    'x of quantizedMatmul in mxfp4': (a) =>
      mx.quantizedMatmul(a, floatCodes, floatScales, null, true, 32, 4, 'mxfp4'),
  };
  const experts3 = () => [experts[0], experts[1], experts[2]] as const;
  const others: typeof calls = {
    'bias of blockLinear': (a) =>
      mx.blockLinear(x, blocks, 'Q8_0', a.reshape([-1]).slice([0], [6])),
    'bias of quantizedLinear': (a) =>
      mx.quantizedLinear(x, codes, scales, biases, a.reshape([-1]).slice([0], [6])),
  };

  test.each(Object.entries({ ...calls, ...others }))('%s', (name, call) => {
    mx.tidy(() => {
      for (const dtype of factors) {
        const error = thrown(() => call(x.astype(dtype)));
        expect(error).toBeInstanceOf(DtypeError);
        const [argument, op] = name.split(/ of | in /);
        expect(error.message).toMatch(
          new RegExp(
            `^${op}\\(.*\\): ${argument} has to be of dtype float32, float16, bfloat16, an`,
          ),
        );
      }
      // The numbers here are all 1.
      const expected = call(x) as MxArray;
      for (const dtype of ['int32', 'uint8', 'bool_'] as const) {
        const result = call(x.astype(dtype)) as MxArray;
        expect(result.dtype).toBe('float32');
        expect(result.dataSync()).toEqual(expected.dataSync());
      }
    });
  });

  test('without transpose', () => {
    mx.tidy(() => {
      const call = (a: MxArray) => mx.quantizedMatmul(a, codes, scales, biases, false);
      for (const dtype of factors) {
        expect(thrown(() => call(mx.ones([2, 6], dtype)))).toBeInstanceOf(DtypeError);
      }
      expect(call(mx.ones([2, 6], 'int32')).dataSync()).toEqual(call(mx.ones([2, 6])).dataSync());
    });
  });

  test.each([...factors, 'int32'] as const)('weights of %s are not quantised', (dtype) => {
    mx.tidy(() => {
      const given = w.astype(dtype);
      for (const call of [
        () => mx.quantize(given),
        () => mx.quantize(given, 32, 4, 'mxfp4'),
        () => mx.blockQuantize(given, 'Q8_0'),
      ]) {
        const error = thrown(call);
        expect(error).toBeInstanceOf(DtypeError);
        expect(error.message).toMatch(/w has to be of dtype float32, float16 or bfloat16$/);
      }
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
    ['no codes', () => mx.dequantize(none(0, 16), mx.zeros([0, 2]), mx.zeros([0, 2])), [0, 128]],
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
