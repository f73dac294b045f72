import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CheckpointError, mx } from '@mlx-runners/mlx-core';
import { readCheckpoint, readCTranslate2 } from '@mlx-runners/nn';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nn-checkpoint-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function text(value: string): Buffer {
  const bytes = Buffer.from(`${value}\0`);
  const length = Buffer.alloc(2);
  length.writeUInt16LE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function variable(name: string, shape: number[], dtype: number, data: Uint8Array): Buffer {
  return Buffer.concat([
    text(name),
    Buffer.of(shape.length),
    ...shape.map(u32),
    Buffer.of(dtype),
    u32(data.length),
    data,
  ]);
}

/** A model.bin with a matrix of floats, a scalar and an alias. */
function model(version = 6): Buffer {
  const matrix = new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer);
  return Buffer.concat([
    u32(version),
    text('WhisperSpec'),
    u32(3),
    u32(2),
    variable('decoder/weight', [2, 3], 0, matrix),
    variable('decoder/num_heads', [], 2, Uint8Array.of(8, 0)),
    u32(1),
    text('projection/weight'),
    text('decoder/weight'),
  ]);
}

function written(bytes: Uint8Array): string {
  const path = join(folder, 'model.bin');
  writeFileSync(path, bytes);
  return path;
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
    expect(() => readCTranslate2(written(model(7)))).toThrow(/version 7; versions 5 and 6/);
  });

  it('refuses a file that is cut off or longer than it says', () => {
    for (const bytes of [model().subarray(0, -3), Buffer.concat([model(), Buffer.of(0)])]) {
      expect(() => readCTranslate2(written(bytes))).toThrow(CheckpointError);
    }
  });

  it('gives tensors or a CheckpointError for any change of bytes', () => {
    const good = model();
    const change = fc.record({
      at: fc.nat(good.length - 1),
      to: fc.integer({ min: 0, max: 255 }),
      length: fc.integer({ min: 0, max: good.length }),
    });
    fc.assert(
      fc.property(change, ({ at, to, length }) => {
        const bytes = Buffer.from(good);
        bytes[at] = to;
        try {
          for (const tensor of readCTranslate2(written(bytes.subarray(0, length))).values()) {
            tensor.dispose();
          }
        } catch (error) {
          expect(error).toBeInstanceOf(CheckpointError);
        }
      }),
      { numRuns: 500 },
    );
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

  it('reads shards through their index', () => {
    mx.saveSafetensors(at('model-1.safetensors'), { a: mx.ones([2]) });
    mx.saveSafetensors(at('model-2.safetensors'), { b: mx.ones([3]) });
    const index = { weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } };
    writeFileSync(at('model.safetensors.index.json'), JSON.stringify(index));
    expect([...readCheckpoint(folder).tensors.keys()]).toEqual(['a', 'b']);
    rmSync(at('model-2.safetensors'));
    expect(() => readCheckpoint(folder)).toThrow(/lacks model-2\.safetensors/);
  });

  it('refuses an index that leads out of the folder', () => {
    const index = { weight_map: { a: '../model.safetensors' } };
    writeFileSync(at('model.safetensors.index.json'), JSON.stringify(index));
    expect(() => readCheckpoint(folder)).toThrow(/outside its folder/);
  });

  it('says what is needed where there are no weights', () => {
    expect(() => readCheckpoint(folder)).toThrow(/has no weights: model\.safetensors/);
  });
});
