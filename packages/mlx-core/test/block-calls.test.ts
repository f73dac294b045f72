/** Calls with weights in blocks: dtypes and shapes that fit, and that don't. */
import { DtypeError, mx, ShapeError, type MxArray } from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { thrown } from './expectations.js';

const w = mx.tidy(() => mx.randomNormal(mx.randomKey(1), [6, 128]));
const blocks = mx.blockQuantize(w, 'Q8_0');
const experts = blocks.reshape([3, 2, -1]);
const x = mx.ones([2, 128]);
const index = (...data: number[]): MxArray => mx.array(data, null, 'int32');

describe('blocks of plain numbers, also as these numbers', () => {
  test.each([
    ['F32', 'float32', 'bfloat16'],
    ['F16', 'float16', 'float32'],
    ['BF16', 'bfloat16', 'float16'],
  ] as const)('%s as %s', (format, dtype, other) => {
    mx.tidy(() => {
      const numbers = w.astype(dtype);
      const bytes = mx.blockQuantize(numbers, format);
      const ids = index(5, 0);
      const matrices = (a: MxArray) => a.reshape([3, 2, -1]);
      const calls: ((a: MxArray) => MxArray)[] = [
        (a) => mx.blockDequantize(a, format),
        (a) => mx.blockLinear(x, a, format),
        (a) => mx.blockLinear(x, a, format, mx.ones([6]), 'fast'),
        (a) => mx.blockTake(a, ids, format),
        (a) => mx.blockGatherLinear(x, matrices(a), index(2, 0), format),
        // A view with gaps.
        (a) => mx.blockLinear(x, a.slice([0, 0], [6, a.shape[1]], [2, 1]), format),
      ];
      for (const call of calls) {
        const result = call(numbers);
        expect(result.dtype).toBe('float32');
        expect(result.shape).toEqual(call(bytes).shape);
        expect(result.dataSync()).toEqual(call(bytes).dataSync());
      }
      for (const call of calls.slice(0, 4)) {
        const error = thrown(() => call(w.astype(other)));
        expect(error).toBeInstanceOf(DtypeError);
        expect(error.message).toMatch(
          `of format ${format} has to be uint8, the bytes of a file, or ${dtype}`,
        );
      }
      expect(thrown(() => mx.blockDequantize(mx.array(1, null, dtype), format))).toBeInstanceOf(
        ShapeError,
      );
    });
  });

  test('other formats are bytes only', () => {
    const error = thrown(() => mx.blockLinear(x, w, 'Q8_0'));
    expect(error).toBeInstanceOf(DtypeError);
    expect(error.message).toMatch(/w of format Q8_0 has to be uint8, the bytes of a file$/);
  });
});

describe('shapes of blocks', () => {
  test.each<[string, () => unknown, RegExp]>([
    ['one axis', () => mx.blockLinear(x, blocks.reshape([-1]), 'Q8_0'), /w has to have 2 axes/],
    ['three axes', () => mx.blockTake(experts, index(0), 'Q8_0'), /w has to have 2 axes/],
    [
      'a matrix for several',
      () => mx.blockGatherLinear(x, blocks, index(0), 'Q8_0'),
      /w has to have 3 axes/,
    ],
    [
      'rows of no whole blocks',
      () => mx.blockLinear(mx.ones([1, 320]), mx.zeros([2, 360], 'uint8'), 'Q8_0'),
      /rows of 360 bytes aren't whole blocks: those of Q8_0 have 34/,
    ],
    [
      'a row where there is none',
      () => mx.blockTake(blocks.slice([0, 0], [0, 136]), mx.add(index(0), 0), 'Q8_0'),
      /every index is outside an axis of size 0/,
    ],
    [
      'a matrix where there is none',
      () => mx.blockGatherLinear(x, mx.zeros([0, 2, 136], 'uint8'), mx.add(index(0, 0), 0), 'Q8_0'),
      /every index is outside an axis of size 0/,
    ],
  ])('%s', (_, call, message) => {
    mx.tidy(() => {
      const error = thrown(call);
      expect(error).toBeInstanceOf(ShapeError);
      expect(error.message).toMatch(message);
    });
  });
});

describe('several matrices', () => {
  const three = [blocks, blocks.slice([0, 0], [2, 136]), blocks.slice([2, 0], [6, 136])];
  const biases = three.map(({ shape }) => mx.ones([shape[0]]));
  const values = (arrays: readonly MxArray[]): unknown[] => arrays.map((a) => a.dataSync());

  test.each([1, 3, 40])('%d rows are those of one matrix at a time', (rows) => {
    mx.tidy(() => {
      const many = mx.randomNormal(mx.randomKey(2), [1, rows, 128]);
      for (const given of [many, many.astype('float16'), many.transpose([1, 0, 2])]) {
        for (const precision of ['exact', 'fast'] as const) {
          const together = mx.blockLinears(given, three, 'Q8_0', null, precision);
          const each = three.map((one) => mx.blockLinear(given, one, 'Q8_0', null, precision));
          expect(values(together)).toEqual(values(each));
          const added = mx.blockLinears(given, three, 'Q8_0', biases, precision);
          const one = three.map((one, i) =>
            mx.blockLinear(given, one, 'Q8_0', biases[i], precision),
          );
          expect(values(added)).toEqual(values(one));
        }
      }
    });
  });

  test('one of them may be empty, and x', () => {
    mx.tidy(() => {
      const [some, none] = mx.blockLinears(x, [blocks, mx.zeros([0, 136], 'uint8')], 'Q8_0');
      expect(some.dataSync()).toEqual(mx.blockLinear(x, blocks, 'Q8_0').dataSync());
      expect(none.shape).toEqual([2, 0]);
      const shapes = mx.blockLinears(mx.zeros([0, 128]), three, 'Q8_0').map(({ shape }) => shape);
      expect(shapes).toEqual([
        [0, 6],
        [0, 2],
        [0, 4],
      ]);
    });
  });

  test.each<[string, () => unknown, RegExp]>([
    ['no matrix', () => mx.blockLinears(x, [], 'Q8_0'), /at least one matrix/],
    [
      'fewer biases',
      () => mx.blockLinears(x, three, 'Q8_0', biases.slice(1)),
      /biases has to have an array for each matrix of w, 3, not 2/,
    ],
    [
      'a bias of another length',
      () => mx.blockLinears(x, three, 'Q8_0', biases.toReversed()),
      /one number per row of w, 6/,
    ],
    [
      'matrices of two depths',
      () => mx.blockLinears(x, [blocks, mx.zeros([2, 68], 'uint8')], 'Q8_0'),
      /the weights of a row of w, 64/,
    ],
  ])('%s', (_, call, message) => {
    mx.tidy(() => {
      const error = thrown(call);
      expect(error).toBeInstanceOf(ShapeError);
      expect(error.message).toMatch(message);
    });
  });
});

describe('nothing to multiply', () => {
  const none = mx.zeros([0], 'uint32');
  test.each<[string, () => MxArray, number[]]>([
    [
      'no rows',
      () => mx.blockLinear(x, mx.zeros([0, 136], 'uint8'), 'Q8_0', mx.zeros([0])),
      [2, 0],
    ],
    [
      'blocks without depth',
      () => mx.blockLinear(mx.zeros([2, 0]), mx.zeros([3, 0], 'uint8'), 'Q8_0'),
      [2, 3],
    ],
    [
      'no ids of no rows of blocks',
      () => mx.blockTake(mx.zeros([0, 136], 'uint8'), none, 'Q8_0'),
      [0, 128],
    ],
    [
      'matrices of no rows of blocks',
      () => mx.blockGatherLinear(x, mx.zeros([3, 0, 136], 'uint8'), index(0, 2), 'Q8_0'),
      [2, 0],
    ],
    [
      'no matrices of blocks, and nothing to multiply',
      () => mx.blockGatherLinear(mx.zeros([0, 128]), mx.zeros([0, 6, 136], 'uint8'), none, 'Q8_0'),
      [0, 6],
    ],
  ])('%s', (_, call, shape) => {
    mx.tidy(() => {
      const y = call();
      expect(y.shape).toEqual(shape);
      expect(y.dataSync()).toEqual(new Float32Array(y.size));
    });
  });
});

test('a matrix of no rows leaves the others what they are alone', () => {
  mx.tidy(() => {
    const row = mx.randomNormal(mx.randomKey(8), [1, 128]);
    const blocks = mx.blockQuantize(mx.randomNormal(mx.randomKey(9), [7, 128]), 'Q5_1');
    const none = mx.zeros([0, blocks.shape[1]], 'uint8');
    const [some, empty] = mx.blockLinears(row, [blocks, none], 'Q5_1', null, 'fast');
    const alone = mx.blockLinear(row, blocks, 'Q5_1', null, 'fast');
    expect(some.dataSync()).toEqual(alone.dataSync());
    expect(empty.shape).toEqual([1, 0]);
  });
});
