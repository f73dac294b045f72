import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  type Files,
  type FuzzSubject,
  type Mutation,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';

let folder: string;
const cwd = process.cwd();
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'fuzzing-'));
  process.chdir(folder); // failing cases keep their files below it
  for (const variable of ['FUZZ_CASES', 'FUZZ_SEED', 'FUZZ_CASE']) vi.stubEnv(variable, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
  process.chdir(cwd);
  rmSync(folder, { recursive: true });
});

const setsZero: Mutation = {
  kind: 'first byte zero',
  apply: (file) => Buffer.concat([Buffer.of(0), file.subarray(1)]),
};
const appends: Mutation = {
  kind: 'one byte more',
  apply: (file) => Buffer.concat([file, Buffer.of(7)]),
};

function subject(read: FuzzSubject['read'], changes: Partial<FuzzSubject> = {}): FuzzSubject {
  return {
    name: 'bytes',
    cases: 50,
    inputs: [{ 'file.bin': Buffer.from('abc') }],
    mutationsOf: () => [setsZero, appends],
    read,
    ...changes,
  };
}

const first = (files: Files): number => files['file.bin'][0];

/** Undamaged files are read. */
const outcome = (files: Files): Reading => (files['file.bin'].length > 3 ? 'refused' : 'read');

describe('fuzz', () => {
  it('reads as many cases as asked for, and counts what comes of them', async () => {
    const read = vi.fn(outcome);
    const summary = await fuzz(subject(read));
    expect(summary.cases).toBe(50);
    expect(summary.read + summary.refused).toBe(50);
    expect(Math.min(summary.read, summary.refused)).toBeGreaterThan(0);
    expect(read).toHaveBeenCalledTimes(51); // the undamaged input, too
  });

  it('takes its share of FUZZ_CASES, and other cases for another FUZZ_SEED', async () => {
    const seen = async (seed: string, cases: string): Promise<string[]> => {
      vi.stubEnv('FUZZ_SEED', seed);
      vi.stubEnv('FUZZ_CASES', cases);
      const files: string[] = [];
      const mutationsOf = (): readonly Mutation[] => byteMutations;
      await fuzz(
        subject((f) => (files.push(f['file.bin'].toString('hex')), outcome(f)), { mutationsOf }),
      );
      return files.slice(1);
    };
    vi.spyOn(console, 'log').mockReturnValue();
    expect(await seen('1', '1000')).toHaveLength(20);
    expect(await seen('1', '1000')).toEqual(await seen('1', '1000'));
    expect(await seen('2', '1000')).not.toEqual(await seen('1', '1000'));
  });

  it('names seed, case and needed damage of a failure, and keeps its files', async () => {
    vi.stubEnv('FUZZ_SEED', '3');
    const bad = subject((files) => {
      if (first(files) === 0) throw new TypeError('a bug');
      return 'read';
    });
    const error = await failureOf(bad);
    expect(error.message).toMatch(/^FUZZ_SEED=3 FUZZ_CASE=\d+ fails \(file\.bin: first byte zero;/);
    expect(error.message).toContain('TypeError: a bug');
    const kept = /files in (\S+)\)/.exec(error.message)![1];
    expect(readFileSync(join(kept, 'file.bin'))).toEqual(Buffer.from('\0bc'));
  });

  it('runs one case again', async () => {
    vi.spyOn(console, 'log').mockReturnValue();
    const damaged = (seen: string[]): FuzzSubject =>
      subject((files) => (seen.push(files['file.bin'].toString('hex')), outcome(files)));
    const all: string[] = [];
    await fuzz(damaged(all));
    vi.stubEnv('FUZZ_CASE', '17');
    const one: string[] = [];
    await fuzz(damaged(one));
    expect(one).toEqual([all[0], all[18]]);
  });

  it('finds that all cases came to the same', async () => {
    expect((await failureOf(subject(() => 'read'))).message).toMatch(/All of 50 cases/);
  });

  it('refuses inputs that are not valid, and variables that are no numbers', async () => {
    expect((await failureOf(subject(() => 'refused'))).message).toMatch(/valid input is refused/);
    vi.stubEnv('FUZZ_SEED', 'x');
    expect((await failureOf(subject(() => 'read'))).message).toMatch(/FUZZ_SEED has to be/);
  });

  it.runIf(process.platform === 'linux')('finds files that are left open', async () => {
    const opened: number[] = [];
    const error = await failureOf(
      subject((files) => {
        if (first(files) === 0) opened.push(openSync(fileURLToPath(import.meta.url), 'r'));
        return 'read';
      }),
    );
    opened.forEach(closeSync);
    expect(error.message).toMatch(/left open: \/.*fuzzing\.test\.ts/);
  });

  it.runIf(process.platform === 'linux')('finds memory that no one touches', async () => {
    const error = await failureOf(
      subject((files) =>
        first(files) === 0 && Buffer.alloc(2 ** 30).length === 0 ? 'refused' : 'read',
      ),
    );
    expect(error.message).toMatch(/bytes more were allocated/);
  });
});

async function failureOf(bad: FuzzSubject): Promise<Error> {
  return fuzz(bad).then(
    () => expect.unreachable(),
    (error: unknown) => error as Error,
  );
}

describe('the watchdog', () => {
  const script = fileURLToPath(new URL('../watchdog.mjs', import.meta.url));

  function start(pid: number) {
    const progress = join(folder, 'progress', 'case');
    return {
      progress,
      process: () => spawn(process.execPath, [script, progress, String(pid), '1', 'wav']),
    };
  }

  test('tells the case of a process that is gone, and clears up', async () => {
    const { progress, process } = start(0);
    writeProgress(progress, '12');
    const watchdog = process();
    watchdog.stdin.end();
    expect(await text(watchdog.stderr)).toBe('The process that fuzzed ended: wav FUZZ_CASE=12\n');
    expect(existsSync(progress)).toBe(false);
  });

  test('kills a process that hangs', async () => {
    const hanging = spawn(process.execPath, ['-e', 'for (;;);']);
    const gone = once(hanging, 'exit');
    const { progress, process: run } = start(hanging.pid!);
    writeProgress(progress, '3');
    expect(await text(run().stderr)).toMatch(/hung for 1 s: wav FUZZ_CASE=3/);
    expect(await gone).toEqual([null, 'SIGKILL']);
  });
});

function writeProgress(path: string, index: string): void {
  mkdirSync(join(path, '..'));
  writeFileSync(path, index.padEnd(12));
}

describe('expectRefusal', () => {
  class FileError extends Error {}
  const check = (message: string) => () =>
    expectRefusal(new FileError(message), FileError, '/a/model.bin');

  test('takes a short message that names the file', () => {
    expect(check('/a/model.bin is cut off.')).not.toThrow();
  });

  test.each([
    ['It is cut off.', /does not name the file/],
    [`/a/model.bin ${'x'.repeat(501)}`, /502 characters/],
    ['/a/model.bin: \u001b[2J', /control characters/],
    ["/a/model.bin: Cannot read properties of undefined (reading 'x')", /JavaScript's words/],
  ])('not %j', (message, fault) => {
    expect(check(message)).toThrow(fault);
  });

  test('throws errors of other classes as they are', () => {
    const other = new TypeError('/a/model.bin');
    expect(() => expectRefusal(other, FileError, '/a/model.bin')).toThrow(other);
  });
});
