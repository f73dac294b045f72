import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, type GgufValue } from '@mlx-runners/mlx-core';
import {
  byteMutations,
  expectRefusal,
  FixtureError,
  fuzz,
  ggufBytes,
  inSafetensorsHeader,
  jsonMutations,
  readGguf,
  readSafetensors,
  type FixtureTensor,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'mlx-core-fuzz-'));
const path = join(folder, 'model.safetensors');
afterAll(() => rmSync(folder, { recursive: true }));

/** Files of a few tensors, of every kind of dtype. */
function inputs(): Buffer[] {
  const bytes = (tensors: Parameters<typeof mx.saveSafetensors>[1], metadata = {}): Buffer => {
    mx.saveSafetensors(path, tensors, metadata);
    return readFileSync(path);
  };
  return mx.tidy(() => [
    bytes(
      {
        weight: mx.arange(0, 6).reshape([2, 3]),
        bias: mx.ones([4], 'bfloat16'),
        ids: mx.array([7], [1], 'int64'),
        mask: mx.array([1, 0, 1], [3], 'bool_'),
      },
      { format: 'pt' },
    ),
    bytes({ scalar: mx.array(3), empty: mx.zeros([0, 5]), half: mx.zeros([2, 2], 'float16') }),
    bytes({}),
  ]);
}

/** Reads by ours, whose results have to be whole, and by the reader that was written apart. */
function read(file: Buffer): Reading {
  writeFileSync(path, file);
  const { arrays, active } = mx.memory();
  const ours = mx.tidy(() => {
    try {
      const { tensors, metadata } = mx.loadSafetensors(path);
      const values = [...tensors].map(
        ([name, x]) => [name, { dtype: x.dtype, shape: [...x.shape], data: x.dataSync() }] as const,
      );
      return { tensors: new Map(values), metadata };
    } catch (error) {
      expectRefusal(error, CheckpointError, path);
      return undefined;
    }
  });
  expect(mx.memory()).toMatchObject({ arrays, active });
  const reference = readApart();
  if (!ours && !reference) return 'refused';
  // The other reader has no complex64, and neither MLX's limit of 2³¹ − 1 for a size nor ours of axes.
  if (ours && [...ours.tensors.values()].some(({ dtype }) => dtype === 'complex64')) return 'read';
  if (!ours && isBeyondLimits(reference!)) return 'refused';
  expect(ours?.tensors).toEqual(withPlainZeros(reference?.tensors));
  expect(ours?.metadata).toEqual(reference?.metadata);
  return 'read';
}

function readApart(): ReturnType<typeof readSafetensors> | undefined {
  try {
    return readSafetensors(path);
  } catch (error) {
    if (!(error instanceof FixtureError)) throw error;
    return undefined;
  }
}

/** JSON has −0, which the other reader leaves in a shape. */
function withPlainZeros(tensors: ReadonlyMap<string, FixtureTensor> | undefined) {
  const entries = [...(tensors ?? [])].map(
    ([name, tensor]) => [name, { ...tensor, shape: tensor.shape.map((size) => size + 0) }] as const,
  );
  return tensors && new Map(entries);
}

function isBeyondLimits({ tensors }: ReturnType<typeof readSafetensors>): boolean {
  return [...tensors.values()].some(
    ({ shape }) => shape.length > 64 || shape.some((size) => size >= 2 ** 31),
  );
}

test('damaged safetensors files are read as by a strict reader, or refused', async () => {
  const mutations = [...byteMutations, ...jsonMutations.map(inSafetensorsHeader)];
  await fuzz({
    name: 'safetensors',
    cases: 550,
    inputs: inputs().map((file) => ({ 'model.safetensors': file })),
    mutationsOf: () => mutations,
    read: (files) => read(files['model.safetensors']),
  });
});

/** A file with most types of metadata and some of tensors, one with a number, one with nothing. */
function ggufInputs(): Record<string, Buffer>[] {
  const numbers = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const all = ggufBytes(
    [
      ['general.architecture', { type: 'string', value: 'llama' }],
      ['general.alignment', { type: 'uint32', value: 64 }],
      ['u8', { type: 'uint8', value: 1 }],
      ['i16', { type: 'int16', value: -1 }],
      ['f32', { type: 'float32', value: 0.5 }],
      ['f64', { type: 'float64', value: 0.1 }],
      ['u64', { type: 'uint64', value: 2n ** 63n }],
      ['yes', { type: 'bool', value: true }],
      ['tokens', { type: 'array', of: 'string', value: ['<s>', 'é', ''] }],
      ['scores', { type: 'array', of: 'float32', value: [0, -1, -2] }],
      ['flags', { type: 'array', of: 'bool', value: [1, 0] }],
      [
        'lists',
        { type: 'array', of: 'array', value: [{ type: 'array', of: 'int64', value: [-1] }] },
      ],
    ],
    [
      { name: 'norm', type: 0, sizes: [4], data: numbers },
      { name: 'half', type: 1, sizes: [4, 2], data: numbers },
      { name: 'blocks', type: 2, sizes: [32, 2], data: Buffer.alloc(36, 7) },
      { name: 'k', type: 14, sizes: [256], data: Buffer.alloc(210, 3) },
      { name: 'none', type: 26, sizes: [3, 0], data: new Uint8Array() },
    ],
    { alignment: 64 },
  );
  const little = ggufBytes([], [{ name: 'x', type: 24, sizes: [], data: Uint8Array.of(1) }]);
  return [all, little, ggufBytes([], [], { version: 2 })].map((file) => ({ 'model.gguf': file }));
}

/** Lists of numbers as plain ones, and all 64-bit integers as BigInt where the other reader has one. */
function comparable(value: GgufValue, reference: unknown): unknown {
  if (ArrayBuffer.isView(value)) return Array.from(value as Iterable<number | bigint>);
  if (Array.isArray(value) && Array.isArray(reference)) {
    return value.map((each: GgufValue, i) => comparable(each, reference[i]));
  }
  return typeof reference === 'bigint' ? BigInt(value as number) : value;
}

/** Reads by ours, whose tensors have to be whole, and by the reader that was written apart. */
function readGgufFile(file: Buffer): Reading {
  const place = join(folder, 'model.gguf');
  writeFileSync(place, file);
  const { arrays, active } = mx.memory();
  const reference = readGgufApart(file);
  const reading = mx.tidy(() => {
    try {
      const { metadata, tensors } = mx.loadGguf(place);
      expect([...metadata.keys()]).toEqual([...(reference?.metadata ?? []).keys()]);
      for (const [key, value] of metadata) {
        const expected = reference?.metadata.get(key);
        expect(comparable(value, expected)).toEqual(expected);
      }
      expect(new Set(tensors.keys())).toEqual(new Set(reference?.tensors.keys()));
      for (const [name, { array, shape }] of tensors) {
        const expected = reference!.tensors.get(name)!;
        expect(shape).toEqual(expected.shape);
        const bytes =
          array.size > 0 ? array.reshape([-1]).view('uint8').dataSync() : new Uint8Array();
        expect(Buffer.from(bytes as Uint8Array).equals(expected.data)).toBe(true);
      }
      return 'read';
    } catch (error) {
      expectRefusal(error, CheckpointError, place);
      expect(reference).toBeUndefined();
      return 'refused';
    }
  });
  expect(mx.memory()).toMatchObject({ arrays, active, mapped: 0 });
  return reading;
}

function readGgufApart(file: Buffer): ReturnType<typeof readGguf> | undefined {
  try {
    return readGguf(file);
  } catch (error) {
    if (!(error instanceof FixtureError)) throw error;
    return undefined;
  }
}

test('damaged GGUF files are read as by a strict reader, or refused', async () => {
  await fuzz({
    name: 'gguf',
    cases: 550,
    inputs: ggufInputs(),
    mutationsOf: () => byteMutations,
    read: (files) => readGgufFile(files['model.gguf']),
  });
});
