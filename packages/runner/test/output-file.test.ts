import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeOutputFile } from '@mlx-runners/runner';
import { afterEach, beforeEach, expect, test } from 'vitest';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'output-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('makes folders, and replaces what was there', async () => {
  const path = join(folder, 'a', 'b', 'result.txt');
  await writeOutputFile(path, 'first');
  await writeOutputFile(path, new TextEncoder().encode('second'));
  expect(readFileSync(path, 'utf8')).toBe('second');
  expect(readdirSync(join(folder, 'a', 'b'))).toEqual(['result.txt']);
});

test('an error half-way leaves the old file and nothing else', async () => {
  const path = join(folder, 'result.txt');
  writeFileSync(path, 'old');
  const failing = (async function* () {
    yield 'half';
    await Promise.reject(new Error('the disk is full'));
  })();
  await expect(writeOutputFile(path, failing as unknown as string)).rejects.toThrow('disk is full');
  expect(readFileSync(path, 'utf8')).toBe('old');
  expect(readdirSync(folder)).toEqual(['result.txt']);
});

test('a place that is a folder is an error, and stays one', async () => {
  mkdirSync(join(folder, 'taken', 'inside'), { recursive: true });
  await expect(writeOutputFile(join(folder, 'taken'), 'x')).rejects.toThrow();
  expect(readdirSync(folder)).toEqual(['taken']);
});
