import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, MxArray } from '@mlx-runners/mlx-core';
import {
  byteMutations,
  cTranslate2Bytes,
  expectRefusal,
  fuzz,
  inSafetensorsHeader,
  jsonMutations,
  pyTorchBytes,
  type Files,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readCheckpoint, readPyTorch } from '../src/index.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nn-fuzz-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Reads a folder of just these files: whole tensors, or a refusal that names the folder. */
function read(files: Files): Reading {
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
  const bytes = Object.values(files).reduce((total, file) => total + file.length, 0);
  const { arrays, active } = mx.memory();
  const reading = mx.tidy(() => {
    try {
      const { tensors } = readCheckpoint(folder);
      const sizes = [...tensors.values()].map((tensor) => tensor.dataSync().byteLength);
      expect(sizes.reduce((total, size) => total + size, 0)).toBeLessThanOrEqual(bytes);
      return 'read';
    } catch (error) {
      expectRefusal(error, CheckpointError, folder);
      return 'refused';
    }
  });
  expect(mx.memory()).toMatchObject({ arrays, active });
  return reading;
}

function safetensors(values: Record<string, number[]>): Buffer {
  const path = join(folder, 'written.safetensors');
  mx.tidy(() => {
    const tensors = Object.entries(values).map(([name, list]) => [name, mx.array(list)] as const);
    mx.saveSafetensors(path, new Map(tensors));
  });
  return readFileSync(path);
}

test('damaged model.bin files of CTranslate2 are read or refused', async () => {
  const models = [
    cTranslate2Bytes(
      [
        { name: 'decoder/weight', shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
        { name: 'decoder/num_heads', shape: [], data: Int16Array.of(8) },
      ],
      { aliases: { 'projection/weight': 'decoder/weight' } },
    ),
    cTranslate2Bytes([{ name: 'ids', shape: [3, 1, 1], data: Int8Array.of(1, 2, 3) }], {
      version: 5,
    }),
    cTranslate2Bytes([]),
  ];
  await fuzz({
    name: 'ctranslate2',
    cases: 350,
    inputs: models.map((model) => ({ 'model.bin': model })),
    mutationsOf: () => byteMutations,
    read,
  });
});

test('damaged indices and shards are read or refused', async () => {
  const weightMap = {
    a: 'model-1.safetensors',
    b: 'model-1.safetensors',
    c: 'model-2.safetensors',
  };
  const shards = {
    'model.safetensors.index.json': Buffer.from(
      JSON.stringify({ metadata: { total_size: 24 }, weight_map: weightMap }),
    ),
    'model-1.safetensors': safetensors({ a: [1, 2], b: [3] }),
    'model-2.safetensors': safetensors({ c: [4, 5, 6] }),
  };
  const ofShards = [...byteMutations, ...jsonMutations.map(inSafetensorsHeader)];
  await fuzz({
    name: 'shards',
    cases: 200,
    inputs: [shards],
    mutationsOf: (file) =>
      file.endsWith('.json') ? [...byteMutations, ...jsonMutations] : ofShards,
    read,
  });
});

test('damaged checkpoints of PyTorch are read or refused', async () => {
  const shared = Float32Array.of(1, 2, 3, 4, 5, 6);
  const model = pyTorchBytes({
    model: {
      'a.weight': { shape: [2, 3], data: shared },
      'a.turned': { shape: [3, 2], strides: [1, 3], data: shared },
      'a.bias': { shape: [2], offset: 1, data: Int32Array.of(1, 2, 3) },
    },
    model_args: { dim: 64, norm_eps: 1e-5, name: 'x', list: [1, null, true] },
  });
  await fuzz({
    name: 'pytorch',
    cases: 600,
    inputs: [{ 'model.pt': model }],
    mutationsOf: () => byteMutations,
    read(files) {
      const path = join(folder, 'model.pt');
      writeFileSync(path, files['model.pt']);
      const { arrays, active } = mx.memory();
      const reading = mx.tidy(() => {
        try {
          for (const tensor of tensorsIn(readPyTorch(path))) {
            // Each lies within a storage, which lies within the file.
            expect(tensor.dataSync().byteLength).toBeLessThanOrEqual(files['model.pt'].length);
          }
          return 'read';
        } catch (error) {
          expectRefusal(error, CheckpointError, folder);
          return 'refused';
        }
      });
      expect(mx.memory()).toMatchObject({ arrays, active });
      return reading;
    },
  });
});

function tensorsIn(value: unknown, seen = new Set<unknown>()): MxArray[] {
  if (value instanceof MxArray) return [value];
  if (seen.has(value) || !(Array.isArray(value) || value instanceof Map)) return [];
  seen.add(value);
  const children = Array.isArray(value) ? (value as unknown[]) : [...value.values()];
  return children.flatMap((child) => tensorsIn(child, seen));
}
