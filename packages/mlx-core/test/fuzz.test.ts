import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx } from '@mlx-runners/mlx-core';
import {
  byteMutations,
  expectRefusal,
  FixtureError,
  fuzz,
  inSafetensorsHeader,
  jsonMutations,
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
