/** `whisper export --format mlxfn`; that MLX runs such files is tested with packages/program. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MlxfnManifest } from '@mlx-runners/program';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCli, type CliResult } from './run-cli.js';
import { huggingFaceFiles } from './tiny-model.js';

const folder = mkdtempSync(join(tmpdir(), 'whisper-export-mlxfn-'));
afterAll(() => rmSync(folder, { recursive: true }));

beforeAll(() => {
  mkdirSync(join(folder, 'model'));
  for (const [name, bytes] of Object.entries(huggingFaceFiles())) {
    writeFileSync(join(folder, 'model', name), bytes);
  }
});

const exporting = (out: string, ...args: string[]): CliResult =>
  runCli(['export', '--model', 'model', '--out', out, '--quiet', ...args], { cwd: folder });

const sizes = [
  ...['--sizes', 'preprocess:N=1600', '--sizes', 'decode:T=3,past=0,P=1'],
  ...['--sizes', 'decode:T=1,past=3..5,P=1'],
];

describe('whisper export --format mlxfn', () => {
  it('writes every method, and says how it is called', () => {
    const { code, out, err } = exporting('mlxfn', '--format', 'mlxfn', ...sizes);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(
      /^decode\(ids: int32\[1, T\], positions: int32\[P\], past: float32\[past\], 4 states\) → logits: float32\[1, P, 120\], 2 states$/m,
    );
    const files = ['preprocess', 'encode', 'cross_kv', 'decode'].map((name) => `${name}.mlxfn`);
    expect(readdirSync(join(folder, 'mlxfn')).sort()).toEqual(
      [...files, 'config.json', 'mlxfn.json', 'tokenizer.json'].sort(),
    );
    const text = readFileSync(join(folder, 'mlxfn/mlxfn.json'), 'utf8');
    const { methods } = JSON.parse(text) as MlxfnManifest;
    expect(methods.decode.sizes.map(({ T, past }) => [T, past])).toEqual([
      [3, 0],
      [1, 3],
      [1, 4],
      [1, 5],
    ]);
    expect(methods.cross_kv).toMatchObject({ states: {}, outputs: {} });
    expect(methods.cross_kv.nextStates).toEqual(['cross.0.keys', 'cross.0.values']);
  });

  it.each([
    [['--format', 'mlxfn'], /preprocess has dimensions .* such as preprocess:N=400\.$/m],
    [['--format', 'mlxfn', '--sizes', 'decode'], /--sizes must be a method and whole numbers/],
    [['--format', 'onnx'], /--format must be one of mlx-runners, mlxfn/],
    [sizes, /--sizes goes with --format mlxfn/],
  ])('%j makes no sense', (args, message) => {
    const { code, out, err } = exporting('nothing', ...args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(message);
    expect(readdirSync(folder)).not.toContain('nothing');
  });

  it('a size that the method does not take', () => {
    const { code, err } = exporting(
      'nothing',
      '--format',
      'mlxfn',
      ...sizes,
      '--sizes',
      'decode:T=2,past=11,P=1',
    );
    expect(code).toBe(1);
    expect(err).toMatch(/^error: decode can't have T=2,past=11,P=1: it takes T 1 to 1, /);
    expect(readdirSync(folder)).not.toContain('nothing');
  });
});
