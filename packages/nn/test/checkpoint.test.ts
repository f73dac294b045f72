import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, mx } from '@mlx-runners/mlx-core';
import { readCheckpoint, readCTranslate2, readJsonFile } from '@mlx-runners/nn';
import {
  cTranslate2Bytes,
  expectRefusal,
  type CTranslate2Options,
} from '@mlx-runners/test-fixtures';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nn-checkpoint-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A model.bin with a matrix of floats, a scalar and an alias. */
function model(options: CTranslate2Options = {}): Buffer {
  const variables = [
    { name: 'decoder/weight', shape: [2, 3], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
    { name: 'decoder/num_heads', shape: [], data: Int16Array.of(8) },
  ];
  return cTranslate2Bytes(variables, {
    aliases: { 'projection/weight': 'decoder/weight' },
    ...options,
  });
}

function written(bytes: Uint8Array): string {
  const path = join(folder, 'model.bin');
  writeFileSync(path, bytes);
  return path;
}

const matrix = { name: 'w', shape: [3], data: Float32Array.of(1, 2, 3) };

/** The error of a call that has to refuse a file of the folder. */
function refusal(call: () => unknown): Error {
  try {
    mx.tidy(call);
  } catch (error) {
    expectRefusal(error, CheckpointError, folder);
    return error as Error;
  }
  return expect.unreachable();
}

describe('readCTranslate2', () => {
  it('reads variables by name, shape and dtype', () => {
    const variables = readCTranslate2(written(model()));
    expect([...variables.keys()]).toEqual(['decoder/weight', 'decoder/num_heads']);
    expect(variables.get('decoder/weight')?.shape).toEqual([2, 3]);
    expect(variables.get('decoder/weight')?.dataSync()).toEqual(Float32Array.of(1, 2, 3, 4, 5, 6));
    expect(variables.get('decoder/num_heads')?.itemSync()).toBe(8);
  });

  it('refuses versions it does not know', () => {
    expect(() => readCTranslate2(written(model({ version: 7 })))).toThrow(
      /version 7; versions 5 and 6/,
    );
  });

  it('refuses a file that is cut off or longer than it says', () => {
    for (const bytes of [model().subarray(0, -3), Buffer.concat([model(), Buffer.of(0)])]) {
      expect(() => readCTranslate2(written(bytes))).toThrow(CheckpointError);
    }
  });

  it.each([
    [
      'no shape of the bytes',
      { ...matrix, shape: [2, 2] },
      /"w" has 12 bytes, .*\[2, 2\] needs 16/,
    ],
    [
      'a shape whose size overflows',
      { ...matrix, shape: Array<number>(8).fill(2 ** 32 - 1) },
      /needs/,
    ],
    ['too many axes', { ...matrix, shape: Array<number>(9).fill(1) }, /"w" has 9 axes/],
    ['a name that a terminal obeys', { ...matrix, name: '\u001b[2J', shape: [] }, /"\\u001b\[2J"/],
  ])('refuses a variable with %s', (_, variable, message) => {
    const error = refusal(() => readCTranslate2(written(cTranslate2Bytes([variable]))));
    expect(error.message).toMatch(message);
  });

  it('refuses a name that comes twice, and an alias of nothing', () => {
    const twice = refusal(() => readCTranslate2(written(cTranslate2Bytes([matrix, matrix]))));
    expect(twice.message).toMatch(/"w" comes twice/);
    const alias = refusal(() => readCTranslate2(written(model({ aliases: { a: 'b' } }))));
    expect(alias.message).toMatch(/"a" stands for nothing/);
  });

  it('refuses a pipe without waiting for a writer', () => {
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    for (const read of [readCTranslate2, readJsonFile]) {
      const error = refusal(() => read(join(folder, 'pipe')));
      expect(error.message).toMatch(/pipe is not a file\.$/);
    }
  });

  it('refuses a folder', () => {
    expect(refusal(() => readCTranslate2(folder)).message).toMatch(/can't be read: it is a folder/);
  });
});

describe('readCheckpoint', () => {
  const at = (name: string): string => join(folder, name);

  it('reads one safetensors file', () => {
    mx.saveSafetensors(at('model.safetensors'), { a: mx.ones([2]) });
    const { format, tensors } = readCheckpoint(folder);
    expect(format).toBe('safetensors');
    expect(tensors.get('a')?.shape).toEqual([2]);
  });

  it('says that shards lack their index', () => {
    mx.saveSafetensors(at('a.safetensors'), { a: mx.ones([2]) });
    mx.saveSafetensors(at('b.safetensors'), { b: mx.ones([3]) });
    const error = refusal(() => readCheckpoint(folder));
    expect(error.message).toMatch(
      /has a\.safetensors, b\.safetensors and no model\.safetensors\.index\.json/,
    );
  });

  it('reads shards through their index', () => {
    mx.saveSafetensors(at('model-1.safetensors'), { a: mx.ones([2]) });
    mx.saveSafetensors(at('model-2.safetensors'), { b: mx.ones([3]) });
    const index = { weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } };
    writeFileSync(at('model.safetensors.index.json'), JSON.stringify(index));
    expect([...readCheckpoint(folder).tensors.keys()]).toEqual(['a', 'b']);
    rmSync(at('model-2.safetensors'));
    expect(() => readCheckpoint(folder)).toThrow(/lacks model-2\.safetensors/);
  });

  it.each([
    [
      'leads out of the folder',
      { weight_map: { a: '../model.safetensors' } },
      /outside its folder/,
    ],
    ['has no map', { metadata: {} }, /not an index of safetensors files: weight_map: .*missing/],
    ['maps to no texts', { weight_map: { a: 1, b: null } }, /weight_map\.a: .*; weight_map\.b: /],
    ['names a folder', { weight_map: { a: '.' } }, /it is a folder/],
    ['names what its file lacks', { weight_map: { z: 'one.safetensors' } }, /holds "z"/],
    ['has very long names', { weight_map: { a: 'n'.repeat(70_000) } }, /lacks n{60}…,/],
    [
      'has files with the same tensor',
      { weight_map: { a: 'one.safetensors', b: 'two.safetensors' } },
      /same name in several files/,
    ],
  ])('refuses an index that %s', (_, index, message) => {
    mx.tidy(() => {
      mx.saveSafetensors(at('one.safetensors'), { a: mx.ones([2]) });
      mx.saveSafetensors(at('two.safetensors'), { a: mx.ones([2]), b: mx.ones([1]) });
    });
    writeFileSync(at('model.safetensors.index.json'), JSON.stringify(index));
    expect(refusal(() => readCheckpoint(folder)).message).toMatch(message);
  });

  it('says what is needed where there are no weights', () => {
    expect(() => readCheckpoint(folder)).toThrow(/has no weights: model\.safetensors/);
  });
});
