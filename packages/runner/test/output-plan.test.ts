import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FileError, UsageError } from '@mlx-runners/mlx-core/errors';
import { planOutput } from '@mlx-runners/runner';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'output-plan-'));
afterAll(() => rmSync(folder, { recursive: true }));

type Options = Parameters<typeof planOutput<'txt' | 'srt'>>[0];
const plan = (options: Options, ...inputs: string[]) =>
  planOutput(options, ['txt', 'srt'] as const, inputs, []);

test('to stdout', () => {
  expect(plan({}, 'a', 'b')).toEqual({ formats: ['txt'], outputDir: undefined, json: false });
  expect(plan({ outputFormat: 'srt' }, 'a').formats).toEqual(['srt']);
  expect(plan({ json: true }, 'a', 'b').json).toBe(true);
});

test('to a folder, which is not made yet', () => {
  const outputDir = join(folder, 'new', 'deep');
  const both = plan({ outputDir, outputFormat: 'all', json: true }, 'a', 'b');
  expect(both).toEqual({ formats: ['txt', 'srt'], outputDir, json: true });
  expect(readdirSync(folder)).toEqual([]);
});

test.each<[Options, string[], RegExp]>([
  [{ json: true, outputFormat: 'srt' }, ['a'], /--json and --output-format srt both say/],
  [{ outputFormat: 'all' }, ['a'], /All formats can't share stdout: give --output-dir/],
  [{ outputFormat: 'srt' }, ['a', 'b'], /srt of several inputs can't share stdout/],
  [{ outputDir: folder }, ['a', 'b', 'a'], /Two inputs would be written as a:/],
])('%j for %j is misuse', (options, inputs, message) => {
  expect(() => plan(options, ...inputs)).toThrow(UsageError);
  expect(() => plan(options, ...inputs)).toThrow(message);
});

test('a folder that is a file is refused before any work', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const outputDir of [file, join(file, 'below')]) {
    expect(() => plan({ outputDir }, 'a')).toThrow(FileError);
    expect(() => plan({ outputDir }, 'a')).toThrow(/is a file where a folder is needed/);
  }
});

test('what would be written over an input is misuse, also through a link', () => {
  const input = join(folder, 'talk.srt');
  const outputDir = join(folder, 'links');
  mkdirSync(outputDir);
  writeFileSync(input, '');
  symlinkSync(input, join(outputDir, 'other.txt'));
  const write = (options: Options, name: string) => () =>
    planOutput(options, ['txt', 'srt'] as const, [name], [input, 'https://a/b']);
  for (const misuse of [
    write({ outputDir: folder, outputFormat: 'all' }, 'talk'),
    write({ outputDir }, 'other'),
  ]) {
    expect(misuse).toThrow(UsageError);
    expect(misuse).toThrow(/would be written over an input/);
  }
  expect(write({ outputDir: folder }, 'talk')).not.toThrow();
});
