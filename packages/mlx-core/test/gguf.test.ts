import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, UsageError } from '@mlx-runners/mlx-core';
import {
  ggufBytes,
  readTensorFixture,
  type GgufEntry,
  type GgufFileTensor,
  type GgufOptions,
} from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, test } from 'vitest';
import { expectArray, thrown } from './expectations.js';

const folder = mkdtempSync(join(tmpdir(), 'gguf-'));
const path = join(folder, 'model.gguf');
afterAll(() => rmSync(folder, { recursive: true }));

type Metadata = Record<string, GgufEntry>;

function write(
  metadata: Metadata | readonly (readonly [string, GgufEntry])[],
  tensors: readonly GgufFileTensor[] = [],
  options: GgufOptions = {},
  file = path,
): Buffer {
  const entries = Array.isArray(metadata) ? metadata : Object.entries(metadata as Metadata);
  const bytes = ggufBytes(entries, tensors, options);
  writeFileSync(file, bytes);
  return bytes;
}

const floats = (...values: number[]): Uint8Array =>
  new Uint8Array(Float32Array.from(values).buffer);

function tensor(fields: Partial<GgufFileTensor> = {}): GgufFileTensor {
  return { name: 'x', type: 0, sizes: [2], data: floats(1, 2), ...fields };
}

describe('metadata', () => {
  function value(entry: GgufEntry): unknown {
    write({ key: entry });
    return mx.loadGguf(path).metadata.get('key');
  }

  test.each<[GgufEntry, unknown]>([
    [{ type: 'uint8', value: 255 }, 255],
    [{ type: 'int8', value: -128 }, -128],
    [{ type: 'uint16', value: 65535 }, 65535],
    [{ type: 'int16', value: -32768 }, -32768],
    [{ type: 'uint32', value: 2 ** 32 - 1 }, 2 ** 32 - 1],
    [{ type: 'int32', value: -(2 ** 31) }, -(2 ** 31)],
    [{ type: 'float32', value: 1e-6 }, Math.fround(1e-6)],
    [{ type: 'float64', value: 0.1 }, 0.1],
    [{ type: 'bool', value: true }, true],
    [{ type: 'bool', value: false }, false],
    [{ type: 'string', value: 'gelée \0 💥' }, 'gelée \0 💥'],
    [{ type: 'string', value: '' }, ''],
    [{ type: 'uint64', value: 2n ** 53n - 1n }, 2 ** 53 - 1],
    [{ type: 'uint64', value: 2n ** 53n }, 2n ** 53n],
    [{ type: 'uint64', value: 2n ** 64n - 1n }, 2n ** 64n - 1n],
    [{ type: 'int64', value: 1n - 2n ** 53n }, 1 - 2 ** 53],
    [{ type: 'int64', value: -(2n ** 63n) }, -(2n ** 63n)],
    [{ type: 'array', of: 'uint8', value: [1, 2] }, Uint8Array.of(1, 2)],
    [{ type: 'array', of: 'int8', value: [-1] }, Int8Array.of(-1)],
    [{ type: 'array', of: 'uint16', value: [65535] }, Uint16Array.of(65535)],
    [{ type: 'array', of: 'int16', value: [-3] }, Int16Array.of(-3)],
    [{ type: 'array', of: 'uint32', value: [4, 5, 6] }, Uint32Array.of(4, 5, 6)],
    [{ type: 'array', of: 'int32', value: [-4] }, Int32Array.of(-4)],
    [{ type: 'array', of: 'float32', value: [0.5, -1] }, Float32Array.of(0.5, -1)],
    [{ type: 'array', of: 'float64', value: [0.1] }, Float64Array.of(0.1)],
    [{ type: 'array', of: 'uint64', value: [2n ** 64n - 1n] }, BigUint64Array.of(2n ** 64n - 1n)],
    [{ type: 'array', of: 'int64', value: [-1n] }, BigInt64Array.of(-1n)],
    [{ type: 'array', of: 'bool', value: [1, 0] }, [true, false]],
    [{ type: 'array', of: 'string', value: ['a', '', 'ç'] }, ['a', '', 'ç']],
    [{ type: 'array', of: 'int32', value: [] }, new Int32Array()],
    [{ type: 'array', of: 'string', value: [] }, []],
    [
      {
        type: 'array',
        of: 'array',
        value: [
          { type: 'array', of: 'string', value: ['a'] },
          { type: 'array', of: 'int8', value: [1] },
        ],
      },
      [['a'], Int8Array.of(1)],
    ],
  ])('%o', (entry, expected) => expect(value(entry)).toEqual(expected));

  test('keeps the order of the file, and keys that objects have by themselves', () => {
    const keys = ['z', '__proto__', 'constructor', 'a.b'];
    write(keys.map((key): [string, GgufEntry] => [key, { type: 'string', value: key }]));
    expect([...mx.loadGguf(path).metadata]).toEqual(keys.map((key) => [key, key]));
  });

  test('a text that is not UTF-8 has U+FFFD for what is wrong', () => {
    expect(value({ type: 'string', value: Buffer.of(0x61, 0xff, 0x62) })).toBe('a\ufffdb');
  });

  test('a vocabulary of 100,000 tokens', () => {
    const tokens = Array.from({ length: 100_000 }, (_, i) => `▁token${i}`);
    expect(value({ type: 'array', of: 'string', value: tokens })).toEqual(tokens);
  });
});

describe('tensors', () => {
  test('of plain numbers, with their axes in row-major order', () => {
    const sizes = [2, 1];
    const data = (bytes: { buffer: ArrayBufferLike }): Uint8Array => new Uint8Array(bytes.buffer);
    write({}, [
      tensor({ name: 'F32', sizes: [3, 2], data: floats(1, 2, 3, 4, 5, 6) }),
      { name: 'F16', type: 1, sizes, data: data(Uint16Array.of(0x3c00, 0xc000)) },
      { name: 'BF16', type: 30, sizes, data: data(Uint16Array.of(0x3f80, 0xc000)) },
      { name: 'I8', type: 24, sizes, data: data(Int8Array.of(1, -2)) },
      { name: 'I16', type: 25, sizes, data: data(Int16Array.of(1, -2)) },
      { name: 'I32', type: 26, sizes, data: data(Int32Array.of(1, -2)) },
      { name: 'I64', type: 27, sizes, data: data(BigInt64Array.of(1n, -2n)) },
      { name: 'F64', type: 28, sizes, data: data(Float64Array.of(1, -2)) },
      { name: 'scalar', type: 26, sizes: [], data: data(Int32Array.of(7)) },
      { name: 'empty', type: 0, sizes: [5, 0], data: new Uint8Array() },
    ]);
    mx.tidy(() => {
      const { tensors } = mx.loadGguf(path);
      const [matrix, ...others] = [...tensors.values()].slice(0, 8);
      expect(matrix.shape).toEqual([2, 3]);
      expectArray(matrix.array, [
        [1, 2, 3],
        [4, 5, 6],
      ]);
      for (const { array } of others) expectArray(array, [[1, -2]]);
      expect(others.map(({ format, array }) => [format, array.dtype])).toEqual([
        ['F16', 'float16'],
        ['BF16', 'bfloat16'],
        ['I8', 'int8'],
        ['I16', 'int16'],
        ['I32', 'int32'],
        ['I64', 'int64'],
        ['F64', 'float64'],
      ]);
      expectArray(tensors.get('scalar')!.array, 7, { dtype: 'int32' });
      expect(tensors.get('empty')!.array.shape).toEqual([0, 5]);
    });
  });

  const goldens = readTensorFixture('gguf_blocks.safetensors');
  test.each([
    ['Q4_0', 2],
    ['Q4_1', 3],
    ['Q5_0', 6],
    ['Q5_1', 7],
    ['Q8_0', 8],
    ['Q4_K', 12],
    ['Q5_K', 13],
    ['Q6_K', 14],
  ])('of %s blocks', (format, type) => {
    const { data, shape } = goldens.tensor(`${format}.raw`);
    const file = write({}, [
      tensor({ name: 'before', data: floats(1), sizes: [1] }),
      { name: 'blocks', type, sizes: [768, 2, 2], data: data as Uint8Array },
    ]);
    const { active } = mx.memory();
    mx.tidy(() => {
      const blocks = mx.loadGguf(path).tensors.get('blocks')!;
      expect(blocks).toMatchObject({ format, shape: [2, 2, 768] });
      expect([blocks.array.dtype, blocks.array.shape]).toEqual(['uint8', [2, 2, shape[1]]]);
      expect(mx.memory()).toMatchObject({ active, mapped: file.length });
      const weights = mx.blockDequantize(blocks.array, format).reshape([4, 768]);
      expect(weights.dataSync()).toEqual(goldens.floats(`${format}.dequant`));
    });
    expect(mx.memory().mapped).toBe(0);
  });

  test('of version 2, another alignment, gaps and another order than in the data', () => {
    const options = { version: 2, alignment: 8 };
    const alignment: Metadata = { 'general.alignment': { type: 'uint32', value: 8 } };
    write(
      alignment,
      [
        tensor({ name: 'late', offset: 24 }),
        tensor({ name: 'early', data: floats(3, 4), offset: 8 }),
      ],
      options,
    );
    const bytes = Buffer.concat([readFileSync(path), Buffer.alloc(16)]);
    // The writer lays them out in order: early's data moves to byte 8, late's to 24.
    const dataAt = bytes.length - 32;
    bytes.set(
      Buffer.concat([Buffer.alloc(8), floats(3, 4), Buffer.alloc(8), floats(1, 2)]),
      dataAt,
    );
    writeFileSync(path, bytes);
    mx.tidy(() => {
      const { tensors } = mx.loadGguf(path);
      expect([...tensors.keys()]).toEqual(['late', 'early']);
      expectArray(tensors.get('late')!.array, [1, 2]);
      expectArray(tensors.get('early')!.array, [3, 4]);
    });
  });

  test('outlive the file', () => {
    write({}, [tensor()]);
    const { tensors } = mx.loadGguf(path);
    rmSync(path);
    using x = tensors.get('x')!.array;
    expectArray(x, [1, 2]);
  });
});

describe('types that nothing computes with', () => {
  const unsupported = tensor({
    name: 'output.weight',
    type: 23,
    sizes: [256],
    data: new Uint8Array(136),
  });

  test.each([
    [10, 'Q2_K', 256, 84],
    [20, 'IQ4_NL', 32, 18],
    [23, 'IQ4_XS', 256, 136],
    [34, 'TQ1_0', 256, 54],
    [39, 'MXFP4', 32, 17],
    [77, '77', 1, 4],
  ])('%d: the error names tensor and type, and what is supported', (type, format, size, bytes) => {
    write({}, [tensor({ name: 'a.weight', type, sizes: [size], data: new Uint8Array(bytes) })]);
    const error = thrown(() => mx.loadGguf(path));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain(`${path}: tensor "a.weight" is of type ${format}, which`);
    expect(error.message).toMatch(/Supported are F32, .*Q4_K_M/);
  });

  test('are chosen by a function, and by nothing else', () => {
    const select = 'output.weight' as never;
    const error = thrown(() => mx.loadGguf(path, select));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toMatch(/^loadGguf\(\): select .* function, .*, not 'output\.weight'\.$/);
  });

  test('are no obstacle where their tensors aren’t selected', () => {
    write({}, [tensor(), unsupported]);
    const seen: unknown[] = [];
    const { tensors } = mx.loadGguf(path, (name, { format, shape }) => {
      seen.push([name, format, shape]);
      return name === 'x';
    });
    expect(seen).toEqual([
      ['x', 'F32', [2]],
      ['output.weight', 'IQ4_XS', [256]],
    ]);
    expect([...tensors.keys()]).toEqual(['x']);
    tensors.get('x')!.array.dispose();
  });
});

describe('models in several files', () => {
  const part = (number: number, count = 3): string =>
    join(
      folder,
      `m-${String(number + 1).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`,
    );
  const place = (number: number, count = 3, total = 3): Metadata => ({
    'split.no': { type: 'uint16', value: number },
    'split.count': { type: 'uint16', value: count },
    'split.tensors.count': { type: 'int32', value: total },
  });
  function writeParts(): void {
    for (const number of [0, 1, 2]) {
      const first: Metadata = number === 0 ? { name: { type: 'string', value: 'm' } } : {};
      const x = tensor({ name: `x${number}`, data: floats(number, 0) });
      write({ ...first, ...place(number) }, [x], {}, part(number));
    }
  }

  test.each([0, 1, 2])('are read whole, given part %d', (number) => {
    writeParts();
    mx.tidy(() => {
      const { metadata, tensors } = mx.loadGguf(part(number));
      expect(metadata.get('name')).toBe('m');
      expect([...tensors.keys()]).toEqual(['x0', 'x1', 'x2']);
      expect([...tensors.values()].map(({ array }) => array.dataSync()[0])).toEqual([0, 1, 2]);
    });
    expect(mx.memory().mapped).toBe(0);
  });

  test.each<[string, () => void, RegExp]>([
    ['a part that is missing', () => rmSync(part(2)), /m-00003-of-00003\.gguf: No such file/],
    ['a part that is cut off', () => writeFileSync(part(2), 'GGUF'), /m-00003.*cut off/],
    ['a part of others', () => write(place(1), [], {}, part(2)), /m-00003.* is part 2 of 3 by its/],
    ['too few tensors', () => write(place(2), [], {}, part(2)), /together have 2 tensors, not 3/],
    [
      'a tensor twice',
      () => write(place(2), [tensor({ name: 'x0' })], {}, part(2)),
      /"x0" comes twice/,
    ],
    ['no part of so many', () => write(place(3), [], {}, part(0)), /can't be part 3 .* of 3/],
    [
      'a wrong name',
      () => write(place(1), [], {}, part(0)),
      /part 2 of 3: it has to be m-00002-of-/,
    ],
  ])('%s is a CheckpointError', (_, damage, message) => {
    writeParts();
    damage();
    const error = thrown(() => mx.loadGguf(part(0)));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toMatch(message);
    expect(mx.memory().mapped).toBe(0);
  });

  test('a name without a number says how the others are found', () => {
    write(place(0));
    expect(() => mx.loadGguf(path)).toThrow(/one of 3 files.*NAME-00001-of-00003\.gguf/);
  });
});

describe('a CheckpointError names the file and what is wrong', () => {
  const lists = (depth: number): GgufEntry =>
    depth === 1
      ? { type: 'array', of: 'int8', value: [] }
      : { type: 'array', of: 'array', value: [lists(depth - 1)] };
  const string = (value: unknown): GgufEntry => ({ type: 'string', value });
  const patched = (at: number, ...bytes: number[]): void => {
    const file = write({ key: { type: 'uint8', value: 7 } }, [tensor()]);
    file.set(bytes, at);
    writeFileSync(path, file);
  };
  const valueType = 24 + 8 + 'key'.length;

  test.each<[string, () => unknown, RegExp]>([
    ['an empty file', () => writeFileSync(path, ''), /beginning is cut off/],
    ['another file', () => writeFileSync(path, 'PK\x03\x04'), /no GGUF file.*"PK\\u0003\\u0004"/],
    ['a file from before GGUF', () => write({}, [], { magic: 'tjgg' }), /before GGUF/],
    ['version 1', () => write({}, [], { version: 1 }), /version 1; 2 and 3 are read/],
    ['version 99', () => write({}, [], { version: 99 }), /version 99; 2 and 3/],
    ['version 0', () => write({}, [], { version: 0 }), /version 0/],
    ['big-endian', () => write({}, [], { version: 0x03000000 }), /big-endian/],
    [
      'more tensors than fit',
      () => write({}, [], { tensorCount: 2n ** 64n - 1n }),
      /18446744073709551615 tensors/,
    ],
    ['more values than fit', () => write({}, [], { valueCount: 2n ** 63n }), /values, for which/],
    ['an empty key', () => write({ '': string('') }), /metadata has no name/],
    ['a key of 65,536 bytes', () => write({ ['k'.repeat(65536)]: string('') }), /65536 bytes/],
    [
      'a key twice',
      () =>
        write([
          ['k', string('a')],
          ['k', string('b')],
        ]),
      /"k" come twice/,
    ],
    ['an unknown type of value', () => patched(valueType, 13), /metadata "key" is of type 13/],
    [
      'a bool of 2',
      () => patched(valueType, 7, 0, 0, 0, 2),
      /"key" should be true or false.* is 2/,
    ],
    [
      'a text longer than the file',
      () => patched(valueType, 8, 0, 0, 0, 0xff, 0xff, 0xff),
      /"key" is cut off/,
    ],
    ['lists in lists', () => write({ k: lists(9) }), /lists in lists, 8 deep/],
    [
      'alignment 0',
      () => write({ 'general.alignment': { type: 'uint32', value: 0 } }),
      /is 0, not a power/,
    ],
    [
      'alignment 24',
      () => write({ 'general.alignment': { type: 'uint32', value: 24 } }),
      /is 24, not a power/,
    ],
    ['alignment as text', () => write({ 'general.alignment': string('32') }), /type 4, uint32/],
    ['a tensor without a name', () => write({}, [tensor({ name: '' })]), /tensor has no name/],
    ['a tensor twice', () => write({}, [tensor(), tensor()]), /tensor "x" comes twice/],
    [
      'five axes',
      () => write({}, [tensor({ sizes: [1, 1, 1, 1, 2] })]),
      /"x" has 5 axes; at most 4/,
    ],
    ['2³¹ as a size', () => write({}, [tensor({ sizes: [2 ** 31, 0] })]), /a size of 2147483648/],
    [
      'sizes whose product overflows',
      () => write({}, [tensor({ sizes: Array<number>(4).fill(2 ** 31 - 1) })]),
      /larger than any file/,
    ],
    [
      'rows of a part of a block',
      () => write({}, [tensor({ type: 12, sizes: [100] })]),
      /"x" has rows of 100 weights; rows of Q4_K have a multiple of 256/,
    ],
    ['a number as a block', () => write({}, [tensor({ type: 2, sizes: [] })]), /rows of 1 weights/],
    [
      'data past the end',
      () => write({}, [tensor({ sizes: [100] })]),
      /400 bytes from byte 0 .* there are 32: is/,
    ],
    [
      'an offset past the end',
      () => write({}, [tensor({ offset: 2n ** 63n })]),
      /from byte 9223372036854775808/,
    ],
    [
      'an unaligned offset',
      () => write({}, [tensor({ offset: 4 })]),
      /starts at byte 4 .* multiple of 32/,
    ],
    [
      'tensors that overlap',
      () => write({}, [tensor(), tensor({ name: 'y', offset: 0 })]),
      /"x" and "y" overlap/,
    ],
    [
      'what a terminal obeys in a name',
      () => write({ [`\u001b[2J\u009b\u202e${'n'.repeat(1000)}`]: lists(9) }),
      /^\P{C}*"\\u001b\[2J\\u009b\\u202en{40,60}…" has lists in lists\P{C}*$/u,
    ],
  ])('%s', (_, prepare, message) => {
    prepare();
    const error = thrown(() => mx.loadGguf(path));
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error.message).toContain(path);
    expect(error.message).toMatch(message);
    expect(mx.memory().mapped).toBe(0);
  });

  test('a file that isn’t there, and a folder', () => {
    expect(() => mx.loadGguf(join(folder, 'none'))).toThrow(CheckpointError);
    expect(() => mx.loadGguf(folder)).toThrow(CheckpointError);
  });

  test('a file cut off anywhere', () => {
    const whole = write({ name: string('n'), list: lists(2) }, [tensor()]).subarray(0, -24);
    writeFileSync(path, whole);
    mx.loadGguf(path).tensors.get('x')!.array.dispose();
    for (let length = 0; length < whole.length; length++) {
      writeFileSync(path, whole.subarray(0, length));
      expect(() => mx.loadGguf(path), `${length} bytes`).toThrow(CheckpointError);
    }
  });
});
