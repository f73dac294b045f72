import { inspect } from 'node:util';
import { mx, MxArray, UsageError, type Dtype, type TypedArray } from '@mlx-runners/mlx-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { expectArray } from './expectations.js';

type Case = [name: string, data: TypedArray, dtype: Dtype];

describe('typed arrays', () => {
  const cases: Case[] = [
    ['Float32Array', Float32Array.of(1.5, -2, NaN), 'float32'],
    ['Float64Array', Float64Array.of(Math.PI, -1e300), 'float64'],
    ['Int8Array', Int8Array.of(-128, 127), 'int8'],
    ['Int16Array', Int16Array.of(-32768, 32767), 'int16'],
    ['Int32Array', Int32Array.of(-(2 ** 31), 2 ** 31 - 1), 'int32'],
    ['BigInt64Array', BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n), 'int64'],
    ['Uint8Array', Uint8Array.of(0, 255), 'uint8'],
    ['Uint16Array', Uint16Array.of(0, 65535), 'uint16'],
    ['Uint32Array', Uint32Array.of(0, 2 ** 32 - 1), 'uint32'],
    ['BigUint64Array', BigUint64Array.of(0n, 2n ** 64n - 1n), 'uint64'],
  ];

  test.each(cases)('%s gives its dtype and comes back', async (_, data, dtype) => {
    using x = mx.array(data);
    expect(x.dtype).toBe(dtype);
    expect(x.shape).toEqual([data.length]);
    expect(x.nbytes).toBe(data.byteLength);
    expect(await x.data()).toEqual(data);
    expect(x.dataSync()).toEqual(data);
  });

  test('they are copied, also from the middle of a buffer', () => {
    const data = Float32Array.of(1, 2, 3, 4);
    using x = mx.array(data.subarray(1, 3));
    data.fill(0);
    expectArray(x, [2, 3]);
  });

  test('subclasses and clamped arrays are taken for what they hold', () => {
    mx.tidy(() => {
      expectArray(mx.array(Buffer.from([1, 255])), [1, 255], { dtype: 'uint8' });
      const clamped = Uint8ClampedArray.of(7, 300, -1);
      expectArray(mx.array(clamped as unknown as Uint8Array), [7, 255, 0], { dtype: 'uint8' });
    });
  });

  test('memory shared between threads is read as well', () => {
    const shared = new Float32Array(new SharedArrayBuffer(8));
    shared.set([1, 2]);
    using x = mx.array(shared);
    expectArray(x, [1, 2]);
  });

  test('a shape folds them, a dtype converts them', () => {
    mx.tidy(() => {
      const folded = mx.array(Int32Array.of(1, 2, 3, 4), [2, 2]);
      expectArray(folded, [
        [1, 2],
        [3, 4],
      ]);
      expectArray(mx.array(Int32Array.of(1, 2), [2], 'float32'), [1, 2], { dtype: 'float32' });
      expectArray(mx.array(Float64Array.of(1.5), [], 'float32'), 1.5, { dtype: 'float32' });
      expectArray(mx.array(Uint8Array.of(0, 2), [2], 'bool_'), [0, 1], { dtype: 'bool_' });
    });
  });

  test('changing what data() gave changes nothing in the array', async () => {
    using x = mx.array([1, 2]);
    ((await x.data()) as Float32Array).fill(9);
    expectArray(x, [1, 2]);
  });
});

describe('dtypes', () => {
  const cases: [dtype: Dtype, itemSize: number, read: TypedArray][] = [
    ['bool_', 1, Uint8Array.of(1, 0, 1)],
    ['uint8', 1, Uint8Array.of(1, 0, 3)],
    ['uint16', 2, Uint16Array.of(1, 0, 3)],
    ['uint32', 4, Uint32Array.of(1, 0, 3)],
    ['uint64', 8, BigUint64Array.of(1n, 0n, 3n)],
    ['int8', 1, Int8Array.of(1, 0, 3)],
    ['int16', 2, Int16Array.of(1, 0, 3)],
    ['int32', 4, Int32Array.of(1, 0, 3)],
    ['int64', 8, BigInt64Array.of(1n, 0n, 3n)],
    ['float16', 2, Float32Array.of(1, 0, 3)],
    ['float32', 4, Float32Array.of(1, 0, 3)],
    ['float64', 8, Float64Array.of(1, 0, 3)],
    ['bfloat16', 2, Float32Array.of(1, 0, 3)],
    ['complex64', 8, Float32Array.of(1, 0, 0, 0, 3, 0)],
  ];

  test.each(cases)('%s from numbers, with its size and typed array', async (dtype, size, read) => {
    using x = mx.array([1, 0, 3], undefined, dtype);
    expect(x.dtype).toBe(dtype);
    expect(x.nbytes).toBe(3 * size);
    expect(await x.data()).toEqual(read);
    using again = mx.array(x.dataSync(), dtype === 'complex64' ? [3, 2] : [3]);
    expect(again.dataSync()).toEqual(read);
  });

  test('halves widen exactly and round when they are made', () => {
    mx.tidy(() => {
      const values = [1 / 3, 65504, 2 ** -24, Infinity, -0];
      const half = mx.array(values, undefined, 'float16').dataSync();
      expect(half).toEqual(Float32Array.of(0.333251953125, 65504, 2 ** -24, Infinity, -0));
      const brain = mx.array(values, undefined, 'bfloat16').dataSync();
      expect(brain).toEqual(Float32Array.of(0.333984375, 65536, 2 ** -24, Infinity, -0));
    });
  });

  test('numbers become integers by cutting off, and 64-bit ones are exact', () => {
    mx.tidy(() => {
      expectArray(mx.array([1.9, -1.9], undefined, 'int32'), [1, -1]);
      const large = [2 ** 53 - 1, -(2 ** 53) + 1, 1.5, NaN];
      expect(mx.array(large, undefined, 'int64').dataSync()).toEqual(
        BigInt64Array.of(9007199254740991n, -9007199254740991n, 1n, 0n),
      );
      expectArray(mx.array([1e-60, 0, NaN], undefined, 'bool_'), [1, 0, 1]);
    });
  });

  test('bytes are taken as they are', () => {
    mx.tidy(() => {
      const bytes = new Uint8Array(Float32Array.of(1, 2).buffer);
      expectArray(mx.fromBytes(bytes, [2], 'float32'), [1, 2]);
      expectArray(mx.fromBytes(bytes, [], 'int64'), Number(0x40000000_3f800000n));
      const odd = new Uint8Array(9);
      odd.set(bytes, 1);
      expectArray(mx.fromBytes(odd.subarray(1), [2], 'float32'), [1, 2]);
    });
  });
});

describe('nested lists', () => {
  test('give shape and values', () => {
    mx.tidy(() => {
      expectArray(mx.array(5), 5, { dtype: 'float32' });
      expectArray(mx.array(true), 1, { dtype: 'float32' });
      expectArray(mx.array([[true], [false]], undefined, 'bool_'), [[1], [0]], { dtype: 'bool_' });
      expectArray(mx.array([[[1, 2]], [[3, 4]]]), [[[1, 2]], [[3, 4]]]);
    });
  });

  test('a shape given beside them folds the elements anew', () => {
    mx.tidy(() =>
      expectArray(mx.array([1, 2, 3, 4], [2, 2]), [
        [1, 2],
        [3, 4],
      ]),
    );
  });

  test('take a dtype without a shape', () => {
    using x = mx.array([1, 2.7], null, 'int32');
    expect([x.shape, x.dtype, x.dataSync()]).toEqual([[2], 'int32', Int32Array.of(1, 2)]);
  });

  test('may be empty', () => {
    mx.tidy(() => {
      expectArray(mx.array([]), []);
      expectArray(mx.array([[], []]), [[], []]);
      expectArray(mx.array([], [0, 3]).sum(0), [0, 0, 0]);
      expect(mx.array([[], []]).size).toBe(0);
    });
  });

  test('any rectangular list comes back as it was', () => {
    const sizes = fc.array(fc.nat({ max: 3 }), { maxLength: 4 });
    fc.assert(
      fc.property(sizes, fc.infiniteStream(fc.float({ noNaN: true })), (shape, numbers) => {
        const size = shape.reduce((product, each) => product * each, 1);
        const flat = [...numbers.take(size)];
        const nest = (depth: number): number | readonly unknown[] =>
          depth === shape.length
            ? flat[taken++]
            : Array.from({ length: shape[depth] }, () => nest(depth + 1));
        let taken = 0;
        using x = mx.array(nest(0) as number[]);
        const firstEmpty = shape.indexOf(0);
        expect(x.shape).toEqual(firstEmpty < 0 ? shape : shape.slice(0, firstEmpty + 1));
        expect(Array.from(x.dataSync(), Number)).toEqual(flat);
      }),
    );
  });
});

test('arange starts at 0 unless told otherwise', () => {
  const values = (x: MxArray): number[] => mx.tidy(() => Array.from(x.dataSync() as Float32Array));
  expect(values(mx.arange(3))).toEqual([0, 1, 2]);
  expect(values(mx.arange(3, 5))).toEqual([3, 4]);
  expect(values(mx.arange(5, 0, -2, 'int32'))).toEqual([5, 3, 1]);
});

describe('a number among integers', () => {
  test.each([
    [2, 'int32', [3]],
    [0.5, 'float32', [1.5]],
    [2 ** 62, 'int32', [1]],
    [2 ** 63, 'float32', [2 ** 63]],
    [-1e300, 'float32', [-Infinity]],
    [Infinity, 'float32', [Infinity]],
    [NaN, 'float32', [NaN]],
  ] as const)('%s gives %s', (number, dtype, expected) => {
    mx.tidy(() => expectArray(mx.add(mx.array(Int32Array.of(1)), number), expected, { dtype }));
  });

  test('stays one of 64 bits where those hold it', () => {
    mx.tidy(() => {
      const one = BigUint64Array.of(1n);
      expect(mx.add(mx.array(one), 2 ** 63).dataSync()).toEqual(BigUint64Array.of(2n ** 63n + 1n));
      expect(mx.add(mx.array(BigInt64Array.of(1n)), -(2 ** 63)).dtype).toBe('int64');
      expect(mx.add(mx.array(one), 2 ** 64).dtype).toBe('float32');
    });
  });
});

describe('handles', () => {
  test('tell shape, dtype and sizes', () => {
    using x = mx.zeros([2, 0, 3], 'int16');
    expect(x.shape).toEqual([2, 0, 3]);
    expect([x.dtype, x.ndim, x.size, x.nbytes, x.disposed]).toEqual(['int16', 3, 0, 0, false]);
    using scalar = mx.array(3);
    expect([scalar.ndim, scalar.size, scalar.nbytes]).toEqual([0, 1, 4]);
    expect(Object.isFrozen(x.shape)).toBe(true);
  });

  test('show themselves in short', () => {
    using x = mx.zeros([2, 3]);
    expect(String(x)).toBe('MxArray float32[2, 3]');
    expect(inspect({ x })).toBe('{ x: MxArray float32[2, 3] }');
    x.dispose();
    expect(String(x)).toBe('MxArray a disposed array');
  });

  test('are a text where one is asked for, and neither JSON nor an operand of JavaScript', () => {
    using x = mx.zeros([2, 3]);
    expect(`array: ${x as unknown as string}`).toBe('array: MxArray float32[2, 3]');
    expect(() => JSON.stringify({ x })).toThrow(UsageError);
    expect(() => (x as unknown as number) + 1).toThrow(/x\.add\(1\)/);
    expect(() => Number(x)).toThrow(UsageError);
  });

  test('item() gives the one element', async () => {
    using x = mx.array([[7]]);
    expect(await x.item()).toBe(7);
    expect(x.itemSync()).toBe(7);
    using large = mx.array(BigInt64Array.of(2n ** 40n));
    expect(await large.item()).toBe(2 ** 40);
    using truth = mx.array(1, undefined, 'bool_');
    expect(truth.itemSync()).toBe(1);
  });

  test('are instances of MxArray', () => {
    using x = mx.array(1);
    expect(x).toBeInstanceOf(MxArray);
  });

  test('views and transposed arrays are read in row-major order', () => {
    mx.tidy(() => {
      const x = mx.arange(0, 6).reshape([2, 3]);
      expectArray(x.transpose(), [
        [0, 3],
        [1, 4],
        [2, 5],
      ]);
      expectArray(x.slice([0, 1], [2, 3], [1, 2]), [[1], [4]]);
      expectArray(mx.broadcastTo(mx.array([1, 2]), [2, 2]), [
        [1, 2],
        [1, 2],
      ]);
      expectArray(x.astype('bfloat16').transpose(), [
        [0, 3],
        [1, 4],
        [2, 5],
      ]);
    });
  });
});
