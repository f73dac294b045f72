import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { FixtureError, readSafetensors, readTensorFixture } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'test-fixtures-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: number[];
}

/** Writes a file as it stands, so that tests can write wrong ones too. */
function write(header: unknown, data: Uint8Array, announced?: number): string {
  const json = new TextEncoder().encode(
    typeof header === 'string' ? header : JSON.stringify(header),
  );
  const length = new DataView(new ArrayBuffer(8));
  length.setBigUint64(0, BigInt(announced ?? json.length), true);
  const path = join(folder, 'file.safetensors');
  writeFileSync(path, Buffer.concat([new Uint8Array(length.buffer), json, data]));
  return path;
}

function readOne(dtype: string, data: ArrayBufferView): unknown[] {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const shape = [(data as Uint8Array).length];
  const path = write({ x: { dtype, shape, data_offsets: [0, bytes.length] } }, bytes);
  return Array.from(readSafetensors(path).tensor('x').data as Iterable<unknown>);
}

describe('dtypes', () => {
  test.each([
    ['F64', new Float64Array([Math.PI, -0])],
    ['F32', new Float32Array([1.5, -2, Infinity, NaN])],
    ['I64', new BigInt64Array([-1n, 2n ** 60n])],
    ['I32', new Int32Array([-5, 7])],
    ['I16', new Int16Array([-5, 7])],
    ['I8', new Int8Array([-5, 7])],
    ['U64', new BigUint64Array([2n ** 63n])],
    ['U32', new Uint32Array([0xffffffff])],
    ['U16', new Uint16Array([0xffff])],
    ['U8', new Uint8Array([0, 255])],
    ['BOOL', new Uint8Array([0, 1])],
  ])('%s is read as it was written', (dtype, data) => {
    expect(readOne(dtype, data)).toEqual(Array.from(data as Iterable<unknown>));
  });

  test('float16 covers normal, subnormal and special values', () => {
    const bits = new Uint16Array([0x3c00, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00, 0xfc00, 0x7e00]);
    expect(readOne('F16', bits)).toEqual([1, -2, 65504, 2 ** -24, -0, Infinity, -Infinity, NaN]);
  });

  test('bfloat16 is the upper half of a float32', () => {
    expect(readOne('BF16', new Uint16Array([0x3f80, 0xc049, 0xff80]))).toEqual([
      1,
      -3.140625,
      -Infinity,
    ]);
  });

  test('any float32 tensors survive a round trip, in any order and at any offset', () => {
    const tensors = fc.dictionary(
      fc.string({ minLength: 1 }).filter((name) => name !== '__metadata__' && name !== '__proto__'),
      fc.float32Array({ maxLength: 20 }),
    );
    fc.assert(
      fc.property(tensors, fc.nat({ max: 8 }), (values, padding) => {
        const header: Record<string, Entry> = {};
        let end = 0;
        for (const [name, data] of Object.entries(values)) {
          const begin = end;
          end += data.byteLength;
          header[name] = { dtype: 'F32', shape: [data.length], data_offsets: [begin, end] };
        }
        const data = Buffer.concat(
          Object.values(values).map((x) => Buffer.from(x.buffer, x.byteOffset, x.byteLength)),
        );
        // Spaces after the JSON are allowed, and put the data at every alignment.
        const path = write(JSON.stringify(header) + ' '.repeat(padding), data);
        const file = readSafetensors(path);
        expect([...file.tensors.keys()].sort()).toEqual(Object.keys(values).sort());
        for (const [name, expected] of Object.entries(values)) {
          expect(file.floats(name)).toEqual(expected);
        }
      }),
    );
  });
});

describe('damaged files', () => {
  const good = { dtype: 'F32', shape: [2], data_offsets: [0, 8] };
  const data = new Uint8Array(8);
  test.each<[string, unknown, number | undefined, RegExp]>([
    ['a header that is no JSON', '{"x":', undefined, /not JSON/],
    ['a header that is a list', [], undefined, /not a JSON object/],
    ['a header longer than the file', { x: good }, 10_000, /announces a header of 10000 bytes/],
    ['an unknown dtype', { x: { ...good, dtype: 'F8' } }, undefined, /unknown dtype "F8"/],
    ['a negative size', { x: { ...good, shape: [-2] } }, undefined, /no valid shape/],
    ['a shape that does not fit', { x: { ...good, shape: [3] } }, undefined, /\[3\] needs 12/],
    ['offsets past the end', { x: { ...good, data_offsets: [8, 16] } }, undefined, /expected 0/],
    ['overlapping tensors', { x: good, y: good }, undefined, /'y' .*starts at 0, expected 8/],
    ['bytes that no tensor owns', {}, undefined, /8 bytes of tensors/],
    ['metadata that is no text', { __metadata__: { a: 1 }, x: good }, undefined, /map of strings/],
  ])('%s', (_, header, announced, message) => {
    const path = write(header, data, announced);
    expect(() => readSafetensors(path)).toThrow(FixtureError);
    expect(() => readSafetensors(path)).toThrow(message);
  });

  test('a file shorter than its length field', () => {
    const path = join(folder, 'short.safetensors');
    writeFileSync(path, new Uint8Array(7));
    expect(() => readSafetensors(path)).toThrow(/shorter than a safetensors header/);
  });
});

describe('accessors', () => {
  const file = readTensorFixture('tiny_whisper_80.safetensors');

  test('weights lose their prefix and nothing else is among them', () => {
    const weights = file.weights();
    expect(weights.get('model.encoder.conv1.weight')?.shape).toEqual([32, 80, 3]);
    expect(weights.has('encoder_out')).toBe(false);
  });

  test('integers are numbers, floats are a Float32Array', () => {
    expect(file.integers('prompt_ids')).toEqual([50, 51, 55, 59]);
    expect(file.tensor('cross_attn_layer').shape).toEqual([]);
    expect(file.floats('greedy20_margin')).toHaveLength(20);
    expect(() => file.floats('prompt_ids')).toThrow(/'prompt_ids' is int64/);
    expect(() => file.integers('encoder_out')).toThrow(/'encoder_out' is float32/);
  });

  test('a missing tensor is named, with what there is', () => {
    expect(() => file.tensor('mel64')).toThrow(/no tensor 'mel64'.*mel80/);
  });

  test('the config is parsed', () => {
    expect(file.config()).toMatchObject({ model_type: 'whisper', d_model: 32 });
    expect(() => readTensorFixture('whisper_dtw.safetensors').config()).toThrow(/no config/);
  });
});
