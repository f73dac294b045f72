import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  isPreloadedOpenblas,
  nodeModulesWith,
  openblasPreload,
  peakBytes,
  pythonWith,
} from '@mlx-runners/runner';
import { afterAll, afterEach, expect, test, vi } from 'vitest';

const root = mkdtempSync(join(tmpdir(), 'peers-'));
afterAll(() => rmSync(root, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

const requirements = join(root, 'requirements.txt');
writeFileSync(requirements, 'peer==1.0\n');

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(root, 'folder-'));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

test('what is installed already is used as it is', async () => {
  vi.stubEnv('PATH', root);
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const python = folderWith({ 'installed.txt': 'peer==1.0\n' });
  expect(await pythonWith(requirements, python, log)).toBe(join(python, 'bin', 'python'));
  const modules = folderWith({ 'installed.txt': 'a@1\nb@2\n' });
  await nodeModulesWith(['a@1', 'b@2'], modules, log);
  expect(lines).toEqual([]);
});

test('another list is installed; where that fails, nothing counts as installed', async () => {
  vi.stubEnv('PATH', root);
  const log = vi.fn();
  const python = join(root, 'python');
  await expect(pythonWith(requirements, python, log)).rejects.toThrow(
    /can't be installed \(Python 3.11 .*python3/,
  );
  const modules = folderWith({ 'installed.txt': 'a@1\n' });
  await expect(nodeModulesWith(['a@2'], modules, log)).rejects.toThrow(/npm is needed/);
  expect(log).toHaveBeenCalledTimes(2);
  expect([python, modules].map((folder) => existsSync(join(folder, 'installed.txt')))).toEqual([
    false,
    false,
  ]);
});

test('the libraries under the names of a BLAS are preloaded, and told from others', () => {
  const native = join(root, 'native');
  mkdirSync(native);
  expect(() => openblasPreload(native)).toThrow('build-native');
  for (const name of ['libblas-1.so.3', 'liblapack-1.so.3', 'libmlx.so', 'libblas.txt']) {
    writeFileSync(join(native, name), '');
  }
  const libraries = ['libblas-1.so.3', 'liblapack-1.so.3'].map((name) => join(native, name));
  expect(openblasPreload(native).LD_PRELOAD.split(':').toSorted()).toEqual(libraries);
  expect(isPreloadedOpenblas(native, libraries[0])).toBe(true);
  expect(isPreloadedOpenblas(native, '/usr/lib/libblas.so.3')).toBe(false);
});

test('the peak holds what was allocated', () => {
  const before = peakBytes();
  const block = Buffer.alloc(before, 1);
  expect(peakBytes()).toBeGreaterThan(block.length);
});
