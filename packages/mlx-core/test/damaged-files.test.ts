import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, DtypeError, mx, UsageError } from '@mlx-runners/mlx-core';
import { afterAll, describe, expect, test } from 'vitest';
import { expectArray, thrown } from './expectations.js';

const folder = mkdtempSync(join(tmpdir(), 'damaged-'));
const path = join(folder, 'file.safetensors');
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a file as it stands, so that tests can write wrong ones. */
function write(header: unknown, data: Uint8Array | number[], announced?: bigint): void {
  const json = Buffer.isBuffer(header)
    ? header
    : Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(announced ?? BigInt(json.length));
  writeFileSync(path, Buffer.concat([length, json, Buffer.from(data)]));
}

const eight = new Uint8Array(8);
const entry = (fields: object) => ({
  x: { dtype: 'F32', shape: [2], data_offsets: [0, 8], ...fields },
});
const manyAxes = (axes: number) => entry({ shape: [2, ...Array<number>(axes - 1).fill(1)] });
const nested = '['.repeat(20_000) + ']'.repeat(20_000);

describe('a CheckpointError names the file and what is wrong', () => {
  test.each<[string, () => void, RegExp]>([
    ['an empty file', () => writeFileSync(path, ''), /too short.*0 bytes/],
    ['7 bytes', () => writeFileSync(path, '1234567'), /too short/],
    ['a header longer than the file', () => write('{}', eight, 100n), /100 bytes long/],
    ['a header of 2⁶⁴ − 1 bytes', () => write('{}', eight, 2n ** 64n - 1n), /header would be/],
    ['no JSON', () => write('{"x":', eight), /not JSON/],
    ['a list', () => write([], eight), /not a JSON object/],
    ['null', () => write('null', eight), /not a JSON object/],
    ['a tensor that is a number', () => write({ x: 1 }, eight), /"x" has no description/],
    ['an unknown dtype', () => write(entry({ dtype: 'F4' }), eight), /dtype "F4"; known are BOOL/],
    ['a dtype named as a method', () => write(entry({ dtype: 'toString' }), eight), /"toString"/],
    ['a dtype that is no string', () => write(entry({ dtype: ['F32'] }), eight), /known are/],
    ['no shape', () => write(entry({ shape: undefined }), eight), /no valid shape/],
    ['a negative size', () => write(entry({ shape: [-2] }), eight), /no valid shape/],
    ['a fraction as size', () => write(entry({ shape: [1.5] }), eight), /no valid shape/],
    ['no offsets', () => write(entry({ data_offsets: undefined }), eight), /no valid data_offsets/],
    ['three offsets', () => write(entry({ data_offsets: [0, 8, 8] }), eight), /data_offsets/],
    ['offsets in reverse', () => write(entry({ data_offsets: [8, 0] }), eight), /8 to 0/],
    ['data past the end', () => write(entry({ data_offsets: [4, 12] }), eight), /cut off/],
    ['a shape that needs more bytes', () => write(entry({ shape: [3] }), eight), /needs 12/],
    ['a shape that needs fewer bytes', () => write(entry({ shape: [1] }), eight), /needs 4/],
    [
      'sizes whose product overflows',
      () => write(entry({ shape: [2 ** 32, 2 ** 32, 2 ** 32] }), eight),
      /has 8 bytes/,
    ],
    [
      'bytes of no tensor at the end',
      () => write(entry({}), new Uint8Array(9)),
      /9 bytes.*end at 8/,
    ],
    [
      'bytes of no tensor before it',
      () => write(entry({ data_offsets: [1, 9] }), new Uint8Array(9)),
      /"x" starts at byte 1 of the data, not at 0/,
    ],
    [
      'tensors that overlap',
      () => write({ ...entry({}), y: entry({ data_offsets: [0, 8] }).x }, eight),
      /"y" starts at byte 0 of the data, not at 8/,
    ],
    ['metadata that are no texts', () => write({ __metadata__: { n: 1 } }, []), /object of texts/],
    ['metadata in a list', () => write({ __metadata__: ['x'] }, []), /object of texts/],
    ['more axes than any array has', () => write(manyAxes(5000), eight), /5000 axes; 64 are read/],
    ['a header that is not UTF-8', () => write(Buffer.from([0x7b, 0xff, 0x7d]), []), /not UTF-8/],
    [
      'a name of a megabyte, with what a terminal obeys',
      () => write({ ['\u001b[2J'.repeat(2 ** 18)]: 1 }, eight),
      /^\P{Cc}{0,200}"\\u001b\[2J\P{Cc}{40,100}…" has no description\.$/u,
    ],
    ['lists in lists without end', () => write(`{"x":${nested}}`, eight), /no description/],
    [
      'a size beyond 32 bits beside 0',
      () => write(entry({ shape: [2 ** 40, 0], data_offsets: [0, 0] }), []),
      /whole number below/,
    ],
  ])('%s', (_, prepare, message) => {
    prepare();
    const error = thrown(() => mx.loadSafetensors(path));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain(path);
    expect(error.message).toMatch(message);
  });

  test('a file that isn’t there, and a folder', () => {
    expect(thrown(() => mx.loadSafetensors(join(folder, 'none')))).toBeInstanceOf(CheckpointError);
    const error = thrown(() => mx.loadSafetensors(folder));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain(folder);
  });

  test('when a tensor is bad, those before it are not left behind in a scope', () => {
    write(
      {
        a: { dtype: 'U8', shape: [8], data_offsets: [0, 8] },
        ...entry({ shape: [2 ** 40, 0], data_offsets: [8, 8] }),
      },
      eight,
    );
    const { arrays } = mx.memory();
    expect(() => mx.tidy(() => mx.loadSafetensors(path))).toThrow(CheckpointError);
    expect(mx.memory().arrays).toBe(arrays);
  });
});

describe('what other writers may do', () => {
  test('data that isn’t aligned, in another order than the header', () => {
    const data = new Uint8Array(9);
    data.set(new Uint8Array(Float32Array.of(1, 2).buffer), 1);
    data.set([9], 0);
    write(
      {
        x: { dtype: 'F32', shape: [2], data_offsets: [1, 9] },
        y: { dtype: 'U8', shape: [], data_offsets: [0, 1] },
      },
      data,
    );
    mx.tidy(() => {
      const { tensors } = mx.loadSafetensors(path);
      expectArray(tensors.get('x')!, [1, 2]);
      expectArray(tensors.get('y')!, 9);
    });
  });

  test('metadata that are missing', () => {
    write({ __metadata__: null }, new Uint8Array());
    expect(mx.loadSafetensors(path).metadata).toEqual({});
    write({}, new Uint8Array());
    expect(mx.loadSafetensors(path).metadata).toEqual({});
  });
});

test('a file cut off anywhere is refused', () => {
  const header = {
    weight: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
    mask: { dtype: 'BOOL', shape: [3], data_offsets: [4, 7] },
  };
  write(header, new Uint8Array(7));
  const whole = readFileSync(path);
  for (let length = 0; length < whole.length; length++) {
    writeFileSync(path, whole.subarray(0, length));
    expect(() => mx.loadSafetensors(path), `${length} bytes`).toThrow(CheckpointError);
  }
});

describe('mapped files', () => {
  test('give arrays from any byte, and keep their data after the file is gone', () => {
    writeFileSync(path, Buffer.from([0, 1, 2, 3, 4]));
    const file = mx.mapFile(path);
    expect(file.path).toBe(path);
    using x = file.array(1, [2, 2], 'uint8');
    rmSync(path);
    expectArray(x, [
      [1, 2],
      [3, 4],
    ]);
  });

  test.each<[string, unknown[], RegExp]>([
    ['past the end', [3, [3], 'uint8'], /needs 3 bytes, there are 2/],
    ['from past the end', [6, [0], 'uint8'], /outside its file/],
    ['from before the start', [-1, [1], 'uint8'], /outside its file/],
    ['at no byte', [NaN, [1], 'uint8'], /outside its file/],
    ['of a negative size', [0, [-1], 'uint8'], /whole number/],
  ])('%s is a CheckpointError that names the file', (_, args, message) => {
    writeFileSync(path, Buffer.from([0, 1, 2, 3, 4]));
    const file = mx.mapFile(path);
    const error = thrown(() => (file.array as (...args: unknown[]) => unknown).apply(file, args));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain(path);
    expect(error.message).toMatch(message);
  });

  test('wrong arguments are errors of their own', () => {
    const untyped = mx.mapFile as (path: unknown) => ReturnType<typeof mx.mapFile>;
    expect(() => untyped(1)).toThrow(UsageError);
    expect(() => untyped(undefined)).toThrow(/not undefined/);
    writeFileSync(path, 'x');
    expect(() => untyped(path).array(0, [1], 'float8' as 'uint8')).toThrow(DtypeError);
  });
});
