import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MxArray } from '@mlx-runners/mlx-core';
import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import {
  addGoldenCommand,
  compareFloats,
  compareIntegers,
  createProgram,
  runProgram,
  type GoldenChecker,
  type LoadTensors,
} from '@mlx-runners/runner';
import { fixturePath, readSafetensors } from '@mlx-runners/test-fixtures';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'golden-'));
afterAll(() => rmSync(folder, { recursive: true }));

let stdout = '';
let stderr = '';
let disposed = 0;
beforeEach(() => {
  stdout = stderr = '';
  disposed = 0;
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => Boolean((stdout += String(text))));
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => Boolean((stderr += String(text))));
});
afterEach(() => {
  vi.restoreAllMocks();
  process.exitCode = undefined;
});

/** Reads goldens without the native addon. */
const load: LoadTensors = (path) => {
  let file: ReturnType<typeof readSafetensors>;
  try {
    file = readSafetensors(path);
  } catch (cause) {
    throw new CheckpointError(`${path} can't be read`, { cause });
  }
  const tensors = new Map<string, MxArray>();
  for (const [name, { shape, data }] of file.tensors) {
    const array = { shape, data: () => Promise.resolve(data), dispose: () => disposed++ };
    tensors.set(name, array as unknown as MxArray);
  }
  return { tensors, metadata: file.metadata };
};

/** A "model" whose results are the reference's, plus an error. */
function checker(error: number): GoldenChecker<{ shift?: string }> {
  return {
    matches: (golden) => golden.kind === 'tensors' && golden.tensors.has('median7'),
    async check(golden, { shift = '0' }) {
      if (golden.kind !== 'tensors') throw new Error('not asked for');
      const median = golden.tensors.get('median7')!;
      const path = golden.tensors.get('text_indices')!;
      const values = Float32Array.from((await median.data()) as Float32Array, (x) => x + error);
      const ids = Array.from((await path.data()) as BigInt64Array, (id) => Number(id) + +shift);
      return [
        await compareFloats('median7', { shape: median.shape, data: values }, median),
        await compareIntegers('text_indices', { shape: path.shape, data: ids }, path),
      ];
    },
  };
}

async function golden(args: string[], checkers: readonly GoldenChecker[]) {
  const program = createProgram('fake', import.meta.url);
  addGoldenCommand(program, checkers, load).option('--shift <n>', 'for tests');
  return runProgram(program, ['node', 'fake', 'golden', ...args]);
}

const dtw = fixturePath('whisper_dtw.safetensors');

describe('verdicts', () => {
  test('0 and an aligned line for each tensor where all are equal', async () => {
    expect(await golden([dtw], [checker(0)])).toBe(0);
    expect(stdout.replace(dtw, 'FILE')).toMatchInlineSnapshot(`
      "FILE
        ok    median7       0.0e+0 of the range (at most 1e-4)
        ok    text_indices  equal
        ok: 2 of 2 tensors
      "
    `);
    expect(stderr).toBe('');
    expect(disposed).toBe(4);
  });

  test('1 past the tolerance, and for integers that differ', async () => {
    expect(await golden([dtw, '--shift', '1'], [checker(1)])).toBe(1);
    expect(stdout.replace(dtw, 'FILE')).toMatchInlineSnapshot(`
      "FILE
        FAIL  median7       1.8e-1 of the range (at most 1e-4)
        FAIL  text_indices  1 at [0], expected 0
        FAILED: 0 of 2 tensors
      "
    `);
  });

  test('--json prints one object', async () => {
    expect(await golden([dtw, '--json'], [checker(1e-6)])).toBe(0);
    const output = JSON.parse(stdout) as { files: { results: unknown[] }[] };
    expect(output).toMatchObject({ ok: true, files: [{ file: dtw, ok: true }] });
    expect(output.files[0].results).toHaveLength(2);
    expect(output.files[0].results[1]).toMatchObject({ tensor: 'text_indices', maxError: 0 });
  });

  test('all checkers that match have their say', async () => {
    expect(await golden([dtw], [checker(0), checker(1)])).toBe(1);
    expect(stdout).toContain('FAILED: 3 of 4 tensors');
  });
});

describe('files that are no goldens', () => {
  test.each([
    ['missing.safetensors', undefined, /missing\.safetensors can't be read/],
    ['missing.json', undefined, /missing\.json can't be read: there is no such file/],
    ['bad.json', '{', /bad\.json is not JSON/],
    ['audio.wav', 'RIFF', /audio\.wav is no golden: those are \.safetensors or \.json/],
    ['other.json', '{}', /other\.json is no golden of this runner: a JSON file of another layout/],
  ])('%s: exit code 1 and one line', async (name, content, message) => {
    const path = join(folder, name);
    if (content !== undefined) writeFileSync(path, content);
    expect(await golden([path], [checker(0)])).toBe(1);
    expect(stderr).toMatch(message);
    expect(stderr.match(/\n/g)).toHaveLength(1);
    expect(stdout).toContain('FAILED: not checked');
  });

  test('a golden of another runner is told by what it holds', async () => {
    const other = fixturePath('tiny_whisper_80.safetensors');
    expect(await golden([other], [checker(0)])).toBe(1);
    expect(stderr).toMatch(/its model type is "whisper", its tensors are .*, 11 more/);
  });

  test('a checker that compares nothing does not pass', async () => {
    const idle: GoldenChecker = { matches: () => true, check: () => Promise.resolve([]) };
    expect(await golden([dtw], [idle])).toBe(1);
    expect(stderr).toContain('holds nothing to compare with');
  });

  test('one bad file does not hide the others', async () => {
    expect(await golden([join(folder, 'none.json'), dtw], [checker(0)])).toBe(1);
    expect(stdout).toContain('ok: 2 of 2 tensors');
    expect(stdout).toContain('1 of 2 goldens ok');
  });
});
