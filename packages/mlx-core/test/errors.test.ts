import {
  DisposedError,
  DtypeError,
  MemoryError,
  MlxRunnersError,
  mx,
  type MxArray,
  NativeError,
  printable,
  quoted,
  ShapeError,
  UsageError,
} from '@mlx-runners/mlx-core';
import { describe, expect, test } from 'vitest';
import { thrown } from './expectations.js';

/** Calls as JavaScript could make them. */
const untyped = mx as unknown as Record<string, (...args: unknown[]) => unknown>;

describe('creation', () => {
  test.each<[string, unknown[], RegExp]>([
    [
      'a shape of another size',
      [Float32Array.of(1, 2, 3), [2, 2]],
      /float32\[2, 2\].*16 bytes.*12/,
    ],
    ['a shape of another size for lists', [[1, 2, 3], [2]], /8 bytes.*12/],
    ['a negative size', [[1], [-1]], /whole number/],
    ['a fraction as size', [[1], [1.5]], /whole number/],
    ['a size of 2³¹', [[1], [2 ** 31]], /whole number/],
    ['a shape beyond all memory', [[1], [2 ** 30, 2 ** 30, 2 ** 30]], /bytes/],
    ['a shape that is no list', [[1], 1], /list of sizes, not 1/],
    ['a dtype in place of the shape', [[1], 'uint8'], /mx\.array\(data, null, 'uint8'\)/],
    ['what is near a dtype there', [[1], 'half'], /mx\.array\(data, null, 'float16'\)/],
    ['a word there', [[1], 'x'], /list of sizes, not 'x'\. .*mx\.array\(data, null, 'int32'\)/],
    ['a ragged list', [[[1, 2], [3]]], /same lengths/],
    ['a list beside a number', [[1, [2]]], /same lengths/],
    ['a number beside a list', [[[1], 2]], /same lengths/],
    ['lists of different depth', [[[1], [[2]]]], /same lengths/],
  ])('%s is a ShapeError', (_, args, message) => {
    const error = thrown(() => untyped.array(...args));
    expect(error).toBeInstanceOf(ShapeError);
    expect(error.message).toMatch(message);
  });

  test.each<[string, unknown[], RegExp]>([
    ['a string', ['abc'], /not 'abc'/],
    ['nothing', [], /not undefined/],
    ['null', [null], /not null/],
    ['a bigint', [[1n]], /not 1n\./],
    ['an array of MLX', [mx.array([1])], /not float32\[1\]/],
    ['a DataView', [new DataView(new ArrayBuffer(8))], /not DataView/],
    ['an object without prototype', [Object.create(null)], /not object/],
    [
      'an unknown dtype',
      [[1], [1], 'half'],
      /^array\(\): dtype .* 'half'\. Did you mean 'float16'\?/,
    ],
    ['a dtype that is a method of objects', [[1], [1], 'constructor'], /constructor/],
  ])('%s is a DtypeError', (_, args, message) => {
    const error = thrown(() => untyped.array(...args));
    expect(error).toBeInstanceOf(DtypeError);
    expect(error.message).toMatch(message);
  });

  test.each<[string, unknown[]]>([
    ['no bytes', ['abc', [1], 'float32']],
    ['bytes of another type', [Float32Array.of(1), [1], 'float32']],
    ['no dtype', [Uint8Array.of(1), [1]]],
  ])('fromBytes with %s is a DtypeError', (_, args) => {
    expect(() => untyped.fromBytes(...args)).toThrow(DtypeError);
  });
});

test('a mapped file has no arrays of an unknown dtype', () => {
  using file = mx.mapFile(process.execPath);
  const error = thrown(() => file.array(0, [4], 'bool' as never));
  expect(error).toBeInstanceOf(DtypeError);
  expect(error.message).toMatch(/ array\(\): dtype has to be .* Did you mean 'bool_'\?/);
});

describe('ops', () => {
  const matrix = mx.zeros([2, 3]);

  test('name the op, its arguments, shapes and dtypes', () => {
    const error = thrown(() => mx.matmul(matrix, mx.zeros([2, 3], 'float16')));
    expect(error).toBeInstanceOf(ShapeError);
    expect(error.name).toBe('ShapeError');
    expect(error.message).toMatch(/^matmul\(a: float32\[2, 3\], b: float16\[2, 3\]\): /);
    expect(error.message).not.toMatch(/\[matmul\]/);
    expect(error.cause).toBeInstanceOf(Error);
  });

  test.each<[string, () => unknown, RegExp]>([
    ['shapes that can’t be broadcast', () => mx.add(matrix, mx.zeros([4])), /^add\(a: .*\[4\]/],
    [
      'an impossible shape',
      () => matrix.reshape([4]),
      /^reshape\(a: float32\[2, 3\], shape: \[4\]/,
    ],
    ['an axis that isn’t there', () => matrix.sum(2), /^sum\(a: float32\[2, 3\], axes: 2\)/],
    ['nothing to join', () => mx.concatenate([]), /^concatenate\(arrays: \[\]\)/],
    ['a weight of another width', () => mx.linear(matrix, mx.zeros([5, 4])), /^linear\(/],
    ['a size above the limit', () => mx.tile(matrix, [2 ** 30, 2 ** 30]), /^tile\(/],
  ])('%s is a ShapeError', (_, call, message) => {
    const error = thrown(call);
    expect(error).toBeInstanceOf(ShapeError);
    expect(error.message).toMatch(message);
  });

  test.each<[string, () => unknown, RegExp]>([
    ['bits of floats', () => mx.bitwiseAnd(matrix, matrix), /^bitwiseAnd\(/],
    ['indices that are floats', () => mx.take(matrix, mx.zeros([1])), /^take\(.*integer type/],
    [
      'indices along an axis that are floats',
      () => mx.takeAlongAxis(matrix, matrix, 1),
      /^takeAlongAxis\(.*integer type/,
    ],
  ])('%s are a DtypeError', (_, call, message) => {
    const error = thrown(call);
    expect(error).toBeInstanceOf(DtypeError);
    expect(error.message).toMatch(message);
  });

  test.each<[kind: string, op: string, args: unknown[], message: RegExp]>([
    ['array', 'abs', [1], /^abs: a has to be an MxArray, not 1\.$/],
    ['array', 'abs', ['x'], /an MxArray, not 'x'/],
    ['array', 'abs', [], /an MxArray, not undefined/],
    ['array', 'abs', [[matrix]], /an MxArray, not \[float32\[2, 3\]\]\.$/],
    [
      'array',
      'take',
      [matrix, [1, 2]],
      /an MxArray, not \[1, 2\]\. Make it one with mx\.array\(…\)/,
    ],
    ['array', 'take', [matrix, [[1]]], /not \[\[1\]\]\. Make it one with mx\.array\(…\)/],
    ['array', 'take', [matrix, Int32Array.of(1)], /not Int32Array\. Make it one with mx\.array/],
    [
      'array',
      'blockLinear',
      [matrix, matrix, 'Q8_0', 'fast'],
      /bias has to be an MxArray, not 'fast'\. .* blockLinear\(x, w, format, bias, precision\); null/,
    ],
    ['operand', 'add', [matrix, 'x'], /^add: b has to be an MxArray or a number, not 'x'/],
    ['operand', 'add', [matrix, [1]], /an MxArray or a number, not \[1\]/],
    ['operand', 'add', [matrix, null], /an MxArray or a number, not null/],
    ['operand', 'add', [matrix, 1n], /an MxArray or a number, not 1/],
    ['arrays', 'stack', [matrix], /a list of MxArray, not float32\[2, 3\]/],
    ['arrays', 'stack', [[matrix, 1]], /a list of MxArray, not \[float32\[2, 3\], 1\]/],
    ['arrays', 'stack', [1], /a list of MxArray, not 1/],
    ['int', 'swapaxes', [matrix, 0, '1'], /axis2 has to be an integer, not '1'/],
    ['int', 'swapaxes', [matrix, 0, 1.5], /axis2 has to be a 32-bit integer/],
    ['int', 'swapaxes', [matrix, 0, 2 ** 31], /axis2 has to be a 32-bit integer/],
    ['int', 'swapaxes', [matrix, NaN, 0], /axis1 has to be a 32-bit integer/],
    ['int', 'swapaxes', [matrix, matrix, 0], /axis1 has to be an integer, not float32/],
    ['float', 'rmsNorm', [matrix, null, '1e-5'], /eps has to be a number, not '1e-5'/],
    ['float', 'rmsNorm', [matrix, null, true], /eps has to be a number, not true/],
    ['bool', 'sum', [matrix, 0, 1], /keepdims has to be true or false, not 1/],
    ['ints', 'zeros', ['float16'], /a list of integers, not 'float16'\. .* zeros\(shape, dtype\)/],
    ['ints', 'reshape', [matrix, 6], /shape has to be a list of integers, not 6/],
    ['ints', 'reshape', [matrix, ['6']], /shape has to be a list of integers, not \['6'\]/],
    ['ints', 'reshape', [matrix, [1.5]], /list of 32-bit integers/],
    ['ints', 'reshape', [matrix, matrix], /shape has to be a list of integers, not float32/],
    ['axes', 'sum', [matrix, '0'], /axes has to be an axis or a list of axes, not '0'/],
    ['axes', 'sum', [matrix, [0.5]], /list of 32-bit integers/],
    ['axes', 'sum', [matrix, 0.5], /32-bit integer/],
    ['dtype', 'astype', [matrix, 'float8'], /dtype has to be a dtype, not 'float8'\. Did you mean/],
    ['dtype', 'ones', [[1], 'bool'], /not 'bool'\. Did you mean 'bool_'\? There are bool_, uint8,/],
    ['dtype', 'ones', [[1], 'int'], /not 'int'\. Did you mean 'int32'\?/],
    ['dtype', 'ones', [[1], 'Float32'], /not 'Float32'\. Did you mean 'float32'\?/],
    ['dtype', 'ones', [[1], 'q4_0'], /not 'q4_0'\. There are bool_, .*, complex64\.$/],
    ['dtype', 'astype', [matrix, 3], /dtype has to be a dtype, not 3/],
    ['dtype', 'astype', [matrix], /dtype has to be a dtype, not undefined/],
    ['string', 'pad', [matrix, [0, 0, 0, 0], 0, 1], /mode has to be a string, not 1/],
    ['anything', 'abs', [() => 1], /not a function/],
    ['anything', 'abs', [new Date()], /not Date/],
    ['anything', 'abs', [Symbol('s')], /not Symbol\(s\)/],
  ])('a wrong %s for %s', (_, op, args, message) => {
    const error = thrown(() => untyped[op](...args));
    expect(error).toBeInstanceOf(DtypeError);
    expect(error.message).toMatch(new RegExp(`^${op}\\b`));
    expect(error.message).toMatch(message);
  });

  test('too many arguments, also to a method', () => {
    const error = thrown(() => untyped.abs(matrix, 1));
    expect(error).toBeInstanceOf(DtypeError);
    expect(error.message).toBe('abs takes 1 arguments, not 2.');
    expect(() => untyped.abs(matrix, undefined)).toThrow('abs takes 1 arguments, not 2.');
  });

  test('a list longer than a call can pass', () => {
    const long = Array.from({ length: 9000 }, () => 1);
    expect(() => matrix.reshape(long)).toThrow(ShapeError);
    expect(() => mx.concatenate(long.map(() => matrix))).toThrow(ShapeError);
  });

  test('an unknown word for a mode is an error that lists the known ones', () => {
    const q = mx.zeros([1, 1, 2, 4]);
    const attend = () => untyped.scaledDotProductAttention(q, q, q, 1, 'diagonal');
    expect(attend).toThrow(DtypeError);
    expect(attend).toThrow(
      /^scaledDotProductAttention\(.*'diagonal'\): maskMode has to be '', 'causal' or 'array'$/,
    );
    expect(() => untyped.pad(matrix, [0, 0, 0, 0], 0, 'mirror')).toThrow(
      /^pad\(.*'mirror'\): mode has to be 'constant', 'edge', 'reflect' or 'symmetric'$/,
    );
  });
});

describe('disposed arrays', () => {
  function disposed(): MxArray {
    const x = mx.array([1, 2]);
    expect(x.shape).toEqual([2]);
    x.dispose();
    return x;
  }

  test('disposing twice is fine, with `using` as well', () => {
    using x = disposed();
    expect(x.disposed).toBe(true);
    x.dispose();
    x[Symbol.dispose]();
  });

  test.each<[string, (x: MxArray) => unknown]>([
    ['shape', (x) => x.shape],
    ['dtype', (x) => x.dtype],
    ['abs: a was disposed', (x) => x.abs()],
    ['add: b was disposed', (x) => mx.add(1, x)],
    ['stack: arrays was disposed', (x) => mx.stack([mx.array([1, 2]), x])],
    ['dataSync()', (x) => x.dataSync()],
    ['itemSync()', (x) => x.itemSync()],
    ['evalSync()', (x) => mx.evalSync(x)],
    ['eval()', (x) => mx.eval(x)],
    ['data()', (x) => x.data()],
    ['item()', (x) => x.item()],
  ])('%s: any use is a DisposedError that names it', async (name, use) => {
    const error: unknown = await Promise.resolve()
      .then(() => use(disposed()))
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(DisposedError);
    expect((error as Error).message).toContain(name);
  });
});

describe('evaluation', () => {
  test('item() of more than one element is a ShapeError', async () => {
    using x = mx.array([1, 2]);
    expect(() => x.itemSync()).toThrow(/itemSync\(\) needs an array of one element.*float32\[2\]/);
    await expect(x.item()).rejects.toThrow(ShapeError);
  });

  test.each<[unknown]>([[1], [[mx.array(1)]], [undefined], [{}]])(
    'evaluating %o is a DtypeError',
    async (value) => {
      expect(() => untyped.evalSync(value)).toThrow(DtypeError);
      await expect(untyped.eval(value)).rejects.toThrow(/eval\(\) takes arrays/);
    },
  );

  test('setDevice and setThreads refuse what makes no sense', () => {
    expect(() => untyped.setDevice('tpu')).toThrow(UsageError);
    for (const count of [0, -1, 1.5, NaN, 1025, '4']) {
      expect(() => untyped.setThreads(count)).toThrow(UsageError);
    }
    expect(() => untyped.setThreads('4')).toThrow(/not '4'\.$/);
  });

  test.skipIf(mx.buildInfo().gpu)('setDevice names what is missing', () => {
    expect(() => mx.setDevice('gpu')).toThrow(NativeError);
    expect(() => mx.setDevice('gpu')).toThrow(/^device gpu: .*no GPU/);
    expect(mx.device()).toBe('cpu');
    mx.setDevice('cpu');
  });
});

test('texts in messages are short, and nothing that a terminal obeys', () => {
  const message = (text: string): string => {
    try {
      mx.ones([1]).reshape(text as unknown as number[]);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(message('\u001b[31m')).toBe(
    "reshape: shape has to be a list of integers, not '\\u001b[31m'.",
  );
  expect(message('a'.repeat(1e6)).length).toBeLessThan(200);
});

test('each class has the code that its name says', () => {
  const codes = [ShapeError, DtypeError, DisposedError, NativeError, MemoryError, UsageError].map(
    (Class) => new Class('').code,
  );
  expect(codes).toEqual(['SHAPE', 'DTYPE', 'DISPOSED', 'NATIVE', 'MEMORY', 'USAGE']);
  expect(new ShapeError('x')).toBeInstanceOf(MlxRunnersError);
});

test('an array of thousands of axes has no shape to tell, as a ShapeError', () => {
  const axes = Array<number>(5000).fill(1);
  mx.tidy(() => expect(() => mx.zeros(axes).shape).toThrow(ShapeError));
});

describe('what stands in messages of a value out of a file', () => {
  test.each<[unknown, string]>([
    ['name', '"name"'],
    ['n'.repeat(100), `"${'n'.repeat(60)}…"`],
    ['\u001b[2J\n\u202e\ud800', '"\\u001b[2J\\u000a\\u202e\\ud800"'],
    ['日本 👍', '"日本 👍"'],
    [Infinity, 'Infinity'],
    [null, 'null'],
    [undefined, 'nothing'],
    [[1, [2]], 'a list of 2'],
    [{ a: 1 }, 'an object'],
  ])('%j', (value, shown) => {
    expect(quoted(value)).toBe(shown);
  });

  test('escapes count, so that a message stays short', () => {
    expect(printable('\0'.repeat(1000), 60)).toHaveLength(61);
  });
});
