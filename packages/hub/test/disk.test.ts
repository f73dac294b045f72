import { resolveModel } from '@mlx-runners/hub';
import { mkdir, open, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { failure, fetchWeights, HubSetting, tinyRepo, weightsBlob } from './hub-setting.js';

const setting = new HubSetting(tinyRepo);

afterEach(() => vi.restoreAllMocks());

/** Makes writing to files fail, as a disk does, once `bytes` were written. */
async function failWriting(code: string, bytes: number): Promise<void> {
  await using probe = await open(join(setting.folder, 'probe'), 'w');
  const handles = Object.getPrototypeOf(probe) as typeof probe;
  const write = Reflect.get(handles, 'write') as (
    ...args: unknown[]
  ) => Promise<{ bytesWritten: number }>;
  let left = bytes;
  vi.spyOn(handles, 'write').mockImplementation(async function (this: unknown, ...args: unknown[]) {
    if (left <= 0)
      throw Object.assign(new Error(`${code}: no`), { code, errno: -28, syscall: 'write' });
    const result = await write.apply(this, args);
    left -= result.bytesWritten;
    return result as never;
  });
}

it('a disk that is full is one error, and what came is kept', async () => {
  await failWriting('ENOSPC', 50_000);
  const error = await failure(fetchWeights());
  expect(error.message).toMatch(
    /The cache .*hf can't be written: the disk is full\. Free some space, or set HF_HUB_CACHE/,
  );
  await setting.expectNoModel();
  vi.restoreAllMocks();
  await setting.expectWhole(await fetchWeights());
  expect(setting.hub.ranges('model.safetensors')[1]).toMatch(/^bytes=[1-9]\d+-$/);
});

it('a disk that is too small is known before anything is fetched', async () => {
  const entry = { type: 'file', path: 'a', size: 2 ** 52, oid: 'a'.repeat(40) };
  setting.hub.faults.set('/tree/', (_, response) => response.end(JSON.stringify([entry])));
  const error = await failure(resolveModel('org/model'));
  expect(error.message).toMatch(
    /needs 4503599\.63 GB, and \d+\.\d+ GB are free in the cache .*HF_HUB_CACHE/,
  );
  expect(setting.hub.paths('resolve/')).toEqual([]);
});

it('a folder that may not be written is one error', async () => {
  await failWriting('EROFS', 0);
  expect((await failure(fetchWeights())).message).toMatch(
    /can't be written: the file system is read-only\. Make it writable, or set HF_HUB_CACHE/,
  );
});

it('a cache that is no folder is one error', async () => {
  await writeFile(setting.cache, '');
  expect((await failure(fetchWeights())).message).toMatch(
    /The cache .*hf can't be written: .*\. Make it writable, or set HF_HUB_CACHE to a folder that is/,
  );
});

it('a folder where a blob should be is one error', async () => {
  await mkdir(setting.blob(weightsBlob), { recursive: true });
  await failure(fetchWeights());
  expect(await readdir(join(setting.repoFolder, 'snapshots'))).toEqual([]);
});
