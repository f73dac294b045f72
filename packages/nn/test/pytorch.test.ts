import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { readPyTorch, type PyTorchValue } from '@mlx-runners/nn';
import {
  expectRefusal,
  fixturePath,
  pyTorchBytes,
  type PyTorchObject,
  type PyTorchOptions,
} from '@mlx-runners/test-fixtures';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nn-pytorch-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function written(bytes: Uint8Array): string {
  const path = join(folder, 'model.pt');
  writeFileSync(path, bytes);
  return path;
}

/** As a plain object, whose tensors are arrays. */
function read(path: string): Record<string, PyTorchValue> {
  return Object.fromEntries(readPyTorch(path) as Map<string, PyTorchValue>);
}

function values(tensor: PyTorchValue): number[] {
  return Array.from((tensor as MxArray).astype('float32').dataSync(), Number);
}

describe('files that torch.save wrote', () => {
  it('have tensors of each dtype', () => {
    const tensors = read(fixturePath('pytorch_dtypes.pt'));
    for (const dtype of ['float64', 'float32', 'float16', 'bfloat16'] as const) {
      expect((tensors[dtype] as MxArray).dtype).toBe(dtype);
      expect(values(tensors[dtype])).toEqual([0, 1, 2.5]);
    }
    for (const dtype of ['int64', 'int32', 'int16', 'int8', 'uint8'] as const) {
      expect((tensors[dtype] as MxArray).dtype).toBe(dtype);
      expect(values(tensors[dtype])).toEqual([0, 1, 2]);
    }
    expect((tensors.bool as MxArray).dtype).toBe('bool_');
    expect(values(tensors.bool)).toEqual([0, 1, 1]);
    expect((tensors.complex64 as MxArray).dtype).toBe('complex64');
  });

  it('have views of one storage', () => {
    const { grid, transposed, column, corner, scalar, empty } = read(
      fixturePath('pytorch_dtypes.pt'),
    ) as Record<string, MxArray>;
    expect(values(grid)).toEqual(Array.from({ length: 12 }, (_, i) => i));
    expect(transposed.shape).toEqual([4, 3]);
    expect(values(transposed)).toEqual([0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    expect(values(column)).toEqual([1, 5, 9]);
    expect(corner.shape).toEqual([2, 2]);
    expect(values(corner)).toEqual([6, 7, 10, 11]);
    expect(scalar.shape).toEqual([]);
    expect(values(scalar)).toEqual([7.5]);
    expect(empty.shape).toEqual([0, 3]);
  });

  it('have plain data', () => {
    const { model_args } = read(fixturePath('pytorch_dtypes.pt'));
    expect(model_args).toEqual(
      new Map<unknown, unknown>([
        ['dim', 64],
        ['large', 2 ** 40],
        ['huge', 2n ** 80n],
        ['negative', -3],
        ['eps', 1e-5],
        ['tied', true],
        ['none', null],
        ['name', 'tiny ☃'],
        ['list', [1, 2, [3]]],
        ['tuple', [1, 2, 3, 4]],
        [5, 'five'],
      ]),
    );
  });

  it('have state dicts and parameters', () => {
    const { model, parameter, ordered } = read(fixturePath('pytorch_module.pt'));
    expect([...(model as Map<string, MxArray>)].map(([name, x]) => [name, x.shape])).toEqual([
      ['weight', [3, 2]],
      ['bias', [3]],
    ]);
    expect(values(parameter)).toEqual([1, 1]);
    expect(ordered).toEqual(new Map([['a', 1], ['b', 2]])); // prettier-ignore
  });

  it('have nothing that would be executed', () => {
    expect(() => readPyTorch(fixturePath('pytorch_other.pt'))).toThrow(
      /asks for "__main__\.Other", which is no tensor or plain data/,
    );
  });
});

describe('what is refused', () => {
  const data = Float32Array.of(1, 2, 3, 4);
  const good = { w: { shape: [2, 2], data } };

  it.each<[string, PyTorchObject, PyTorchOptions, RegExp]>([
    ['a function', { w: { global: 'os.system' } }, {}, /asks for "os\.system"/],
    ['a type as a function', { global: 'torch.FloatStorage' }, {}, /called as a function/],
    ['compression', good, { method: 8 }, /"model\/data\.pkl" is compressed/],
    ['numbers the other way round', good, { byteOrder: 'big' }, /not little-endian/],
    ['no pickle', good, { without: 'data.pkl' }, /it has no data\.pkl/],
    ['a lost storage', good, { without: 'data/0' }, /it has no "data\/0"/],
    [
      'a shape beyond its storage',
      { w: { shape: [3, 2], data } },
      {},
      /ends after its storage "0"/,
    ],
    [
      'strides beyond it',
      { w: { shape: [2, 2], strides: [3, 1], data } },
      {},
      /ends after its storage/,
    ],
    ['an offset beyond it', { w: { shape: [2, 2], offset: 1, data } }, {}, /ends after its/],
    [
      'more elements than it has',
      { w: { shape: [2 ** 30, 4], strides: [0, 1], data } },
      {},
      /repeats its storage "0"/,
    ],
    ['a negative size', { w: { shape: [-1], data } }, {}, /no valid place/],
  ])('%s', (_, value, options, message) => {
    const path = written(pyTorchBytes(value, options));
    try {
      readPyTorch(path);
      expect.unreachable();
    } catch (error) {
      expectRefusal(error, CheckpointError, path);
      expect((error as Error).message).toMatch(message);
    }
  });

  it('a file that is no zip, or cut off anywhere', () => {
    const whole = pyTorchBytes(good);
    for (let length = 0; length < whole.length; length += 7) {
      expect(() => readPyTorch(written(whole.subarray(0, length)))).toThrow(CheckpointError);
    }
    expect(() => readPyTorch(written(Buffer.from('not a zip file at all, but text')))).toThrow(
      /it is no zip file/,
    );
    expect(() => readPyTorch(join(folder, 'nothing.pt'))).toThrow(
      /can't be read: there is no such file/,
    );
    expect(() => readPyTorch(folder)).toThrow(CheckpointError);
  });
});

it('keeps the file mapped while tensors live', () => {
  const path = written(pyTorchBytes({ w: { shape: [3], data: Float32Array.of(1, 2, 3) } }));
  const { w } = read(path);
  rmSync(path);
  expect(mx.tidy(() => (w as MxArray).add(1).dataSync())).toEqual(Float32Array.of(2, 3, 4));
});
