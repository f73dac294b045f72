import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  CheckpointError,
  FileError,
  DisposedError,
  DtypeError,
  mx,
  ShapeError,
  UsageError,
  type Dtype,
  type MxArray,
} from '@mlx-runners/mlx-core';
import { fixtureNames, fixturePath, readSafetensors } from '@mlx-runners/test-fixtures';
import fc from 'fast-check';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { thrown } from './expectations.js';

const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));
const path = join(folder, 'file.safetensors');
afterEach(() => rmSync(path, { force: true, recursive: true }));
afterAll(() => rmSync(folder, { recursive: true }));

function dispose(tensors: Map<string, MxArray>): void {
  for (const tensor of tensors.values()) tensor.dispose();
}

/** dtype, shape and values of all tensors of a file, as mlx-core reads them. */
function loaded(file = path): Record<string, [string, readonly number[], unknown]> {
  const { tensors } = mx.loadSafetensors(file);
  const entries = [...tensors].map(
    ([name, x]) => [name, [x.dtype, x.shape, x.dataSync()]] as const,
  );
  dispose(tensors);
  return Object.fromEntries(entries) as ReturnType<typeof loaded>;
}

/** The same by the reader of the test fixtures, which was written apart from ours. */
function readApart(file = path): ReturnType<typeof loaded> {
  const entries = [...readSafetensors(file).tensors].map(
    ([name, { dtype, shape, data }]) => [name, [dtype, shape, data]] as const,
  );
  return Object.fromEntries(entries) as ReturnType<typeof loaded>;
}

const dtypes: Dtype[] = [
  'bool_',
  'uint8',
  'uint16',
  'uint32',
  'uint64',
  'int8',
  'int16',
  'int32',
  'int64',
  'float16',
  'float32',
  'float64',
  'bfloat16',
];

describe('writing and reading', () => {
  test.each(dtypes)('%s', (dtype) => {
    using x = mx.array([1, 0, 3, 127], [2, 2], dtype);
    mx.saveSafetensors(path, { x });
    expect(loaded()).toEqual({ x: [dtype, [2, 2], x.dataSync()] });
    expect(readApart()).toEqual(loaded());
  });

  test('complex64, which the other reader lacks', () => {
    using x = mx.array([1, -2], undefined, 'complex64');
    mx.saveSafetensors(path, { x });
    expect(loaded()).toEqual({ x: ['complex64', [2], Float32Array.of(1, 0, -2, 0)] });
  });

  test('any names, shapes and metadata', () => {
    const name = fc.string({ unit: 'binary' }).filter((each) => each !== '__metadata__');
    const files = fc.record({
      tensors: fc.uniqueArray(fc.tuple(name, fc.array(fc.nat({ max: 3 }), { maxLength: 4 })), {
        maxLength: 5,
        selector: ([each]) => each,
      }),
      metadata: fc.dictionary(fc.string(), fc.string()),
    });
    fc.assert(
      fc.property(files, ({ tensors, metadata }) => {
        const written = new Map(tensors.map(([key, shape]) => [key, mx.full(shape, shape.length)]));
        mx.saveSafetensors(path, written, metadata);
        const read = mx.loadSafetensors(path);
        expect(read.metadata).toEqual({ ...metadata });
        expect([...read.tensors].map(([key, x]) => [key, x.shape])).toEqual(tensors);
        for (const [key, x] of read.tensors)
          expect(x.dataSync()).toEqual(written.get(key)!.dataSync());
        dispose(read.tensors);
        dispose(written);
      }),
      { numRuns: 50 },
    );
  });

  test('names that objects have by themselves', () => {
    const names = ['__proto__', 'constructor', 'toString', ''];
    const written = new Map(names.map((each, i) => [each, mx.array([i])]));
    mx.saveSafetensors(path, written, { note: 'é' });
    const { tensors, metadata } = mx.loadSafetensors(path);
    expect([...tensors].map(([name, x]) => [name, x.itemSync()])).toEqual(
      names.map((name, i) => [name, i]),
    );
    expect(metadata).toEqual({ note: 'é' });
    dispose(tensors);
    dispose(written);
  });

  test('views are written as what they show', () => {
    mx.tidy(() => {
      const x = mx.arange(0, 6).reshape([2, 3]);
      mx.saveSafetensors(path, { t: x.transpose(), part: x.slice([0, 1], [2, 2]), lazy: x.add(1) });
    });
    expect(readApart()).toEqual({
      t: ['float32', [3, 2], Float32Array.of(0, 3, 1, 4, 2, 5)],
      part: ['float32', [2, 1], Float32Array.of(1, 4)],
      lazy: ['float32', [2, 3], Float32Array.of(1, 2, 3, 4, 5, 6)],
    });
  });

  test('data starts at a multiple of 64 bytes, however long the header is', () => {
    for (let length = 0; length < 70; length++) {
      using x = mx.array([1]);
      mx.saveSafetensors(path, { ['n'.repeat(length)]: x });
      const file = readFileSync(path);
      const dataAt = 8 + Number(file.readBigUInt64LE());
      expect(dataAt % 64).toBe(0);
      expect(file.length).toBe(dataAt + 4);
    }
  });

  test('a header of any length about 100,000 bytes', () => {
    for (let length = 99_990; length <= 100_010; length++) {
      const entry = { x: { dtype: 'F32', shape: [1], data_offsets: [0, 4] } };
      const header = JSON.stringify(entry).padEnd(length);
      const prefix = new Uint8Array(BigUint64Array.of(BigInt(length)).buffer);
      const data = new Uint8Array(Float32Array.of(length).buffer);
      writeFileSync(path, Buffer.concat([prefix, Buffer.from(header), data]));
      using x = mx.loadSafetensors(path).tensors.get('x')!;
      expect(x.dataSync()).toEqual(Float32Array.of(length));
    }
  });

  test('no tensors at all', () => {
    mx.saveSafetensors(path, {});
    expect(mx.loadSafetensors(path)).toEqual({ tensors: new Map(), metadata: {} });
  });

  test('loading in a scope frees what isn’t returned', () => {
    using x = mx.array([1]);
    mx.saveSafetensors(path, { x, y: x });
    const { arrays } = mx.memory();
    const y = mx.tidy(() => mx.loadSafetensors(path).tensors.get('y')!);
    expect(mx.memory().arrays).toBe(arrays + 1);
    expect(y.itemSync()).toBe(1);
    y.dispose();
  });

  test('loaded tensors outlive the file, also when another takes its name', () => {
    using x = mx.arange(0, 1000);
    mx.saveSafetensors(path, { x });
    const { tensors } = mx.loadSafetensors(path);
    mx.tidy(() => mx.saveSafetensors(path, { x: tensors.get('x')!.add(1) }));
    rmSync(path);
    expect(tensors.get('x')!.sum().itemSync()).toBe(499500);
    dispose(tensors);
  });
});

describe('fixtures', () => {
  const files = fixtureNames().filter((name) => name.endsWith('.safetensors'));

  test('there are some', () => expect(files.length).toBeGreaterThan(2));

  test.each(files)('%s reads as by the other reader', (name) => {
    const { metadata, tensors } = readSafetensors(fixturePath(name));
    const ours = mx.loadSafetensors(fixturePath(name));
    expect(ours.metadata).toEqual(metadata);
    expect([...ours.tensors.keys()]).toEqual([...tensors.keys()]);
    for (const [key, { dtype, shape, data }] of tensors) {
      const x = ours.tensors.get(key)!;
      expect([x.dtype, x.shape]).toEqual([dtype, shape]);
      expect(Buffer.compare(bytesOf(x.dataSync()), bytesOf(data))).toBe(0);
    }
    dispose(ours.tensors);
  });

  function bytesOf(data: ArrayBufferView): Uint8Array {
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  }
});

describe('a write that fails', () => {
  const old = 'what was there before';

  function expectUntouched(): void {
    expect(readFileSync(path, 'utf8')).toBe(old);
    expect(readdirSync(folder)).toEqual(['file.safetensors']);
  }

  test.each<[string, () => Record<string, unknown>, new (message: string) => Error]>([
    [
      'a disposed tensor',
      () => {
        const gone = mx.array([1]);
        gone.dispose();
        return { fine: mx.array([1]), gone };
      },
      DisposedError,
    ],
    ['something that is no array', () => ({ fine: mx.array([1]), wrong: [1, 2] }), DtypeError],
    ['a reserved name', () => ({ fine: mx.array([1]), __metadata__: mx.array([1]) }), UsageError],
  ])('for %s leaves the old file and nothing else', (_, tensors, Class) => {
    writeFileSync(path, old);
    expect(() => mx.saveSafetensors(path, tensors() as Record<string, MxArray>)).toThrow(Class);
    expectUntouched();
  });

  test.each<[unknown, RegExp]>([
    [{ n: 1 }, /metadata "n" has to be a text, not 1\.$/],
    [{ big: 1n }, /metadata "big" has to be a text, not 1n\.$/],
    [{ gone: undefined }, /metadata "gone" has to be a text, not undefined\.$/],
    [null, /metadata have to be an object of texts, not null\.$/],
    [new Map([['a', 'b']]), /metadata have to be an object of texts, not /],
  ])('for metadata %o leaves nothing either', (metadata, message) => {
    writeFileSync(path, old);
    const error = thrown(() => mx.saveSafetensors(path, {}, metadata as Record<string, string>));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(message);
    expectUntouched();
  });

  test.each<[string, () => unknown, new (message: string) => Error]>([
    ['no tensors', () => 5, UsageError],
    [
      'names that are the same as text',
      () =>
        new Map<unknown, MxArray>([
          [1, mx.array([1])],
          ['1', mx.array([2])],
        ]),
      UsageError,
    ],
    ['too many axes', () => ({ deep: mx.ones(Array<number>(65).fill(1)) }), ShapeError],
  ])('for %s leaves the old file', (_, tensors, Class) => {
    writeFileSync(path, old);
    expect(() => mx.saveSafetensors(path, tensors() as Record<string, MxArray>)).toThrow(Class);
    expectUntouched();
  });

  test('without tensors says what they are', () => {
    const save = mx.saveSafetensors as (path: string) => void;
    expect(() => save(path)).toThrow(/tensors have to be a map or an object, not undefined/);
  });

  test('because a folder has the name is a FileError, without a partial file', () => {
    mkdirSync(join(path, 'inside'), { recursive: true });
    const error = thrown(() => mx.saveSafetensors(path, { x: mx.array([1]) }));
    expect(error).toBeInstanceOf(FileError);
    expect(error.message).toBe(`${path} can't be written: it is a folder, not a file.`);
    expect(readdirSync(folder)).toEqual(['file.safetensors']);
  });

  test('in a folder that is missing: it is made', () => {
    const deep = join(folder, 'none', 'x.safetensors');
    mx.saveSafetensors(deep, { x: mx.array([1]) });
    expect(mx.loadSafetensors(deep).tensors.get('x')!.shape).toEqual([1]);
  });
});

test('a device is refused, not read', () => {
  expect(() => mx.loadSafetensors('/dev/zero')).toThrow(CheckpointError);
  expect(() => mx.loadSafetensors('/dev/zero')).toThrow('/dev/zero is not a file.');
});
