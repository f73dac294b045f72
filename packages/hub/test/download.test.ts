import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { findModel, resolveModel, type DownloadProgress } from '@mlx-runners/hub';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  COMMIT,
  failure,
  fetchWeights,
  HubSetting,
  tinyRepo,
  weights,
  weightsBlob,
} from './hub-setting.js';
import { gitBlobId } from './fake-hub.js';

const setting = new HubSetting(tinyRepo, {
  id: 'org/cases',
  commit: 'a'.repeat(40),
  files: { 'a.txt': 'small', 'A.txt': 'large', 'b/c': '1', 'b.txt': '22' },
});

it("makes the layout of Python's cache", async () => {
  const path = await resolveModel('org/model');
  expect(path).toBe(setting.snapshot);
  await setting.expectWhole(path);
  expect(await readFile(join(path, 'empty.txt'), 'utf8')).toBe('');
  expect(await readFile(join(setting.repoFolder, 'refs', 'main'), 'utf8')).toBe(COMMIT);
  expect(await readlink(join(path, 'model.safetensors'))).toBe(`../../blobs/${weightsBlob}`);
  expect(await readlink(join(path, 'onnx/model.onnx'))).toMatch(/^\.\.\/\.\.\/\.\.\/blobs\//);
  expect((await readdir(setting.repoFolder)).sort()).toEqual([
    'blobs',
    'refs',
    'snapshots',
    'trees',
  ]);
  expect((await setting.blobs()).sort()).toEqual(
    [
      weightsBlob,
      ...['config.json', 'onnx/model.onnx', 'empty.txt'].map((name) =>
        gitBlobId(tinyRepo.files[name]),
      ),
    ].sort(),
  );
  expect(await readdir(join(setting.cache, '.locks'))).toEqual([]);
  const tree = JSON.parse(
    await readFile(join(setting.repoFolder, `trees/${COMMIT}.json`), 'utf8'),
  ) as object;
  expect(tree).toMatchObject({
    format_version: 1,
    files: { 'model.safetensors': { lfs_sha256: weightsBlob, size: weights.length } },
  });
});

it('takes only the files asked for', async () => {
  const path = await resolveModel('org/model', { files: ['*.json', 'model.safetensors'] });
  expect((await readdir(path)).sort()).toEqual(['config.json', 'model.safetensors']);
});

it('is extended when more is asked for, without fetching anything twice', async () => {
  await resolveModel('org/model', { files: ['config.json'] });
  const path = await resolveModel('org/model', { files: ['config.json', 'onnx/*'] });
  expect((await readdir(path)).sort()).toEqual(['config.json', 'onnx']);
  expect(setting.hub.paths('resolve/').length).toBe(2);
  expect(setting.hub.paths('/tree/').length).toBe(1);
});

it('asks for a tag', async () => {
  await resolveModel('org/model', { revision: 'v1.0', files: ['config.json'] });
  expect(await readFile(join(setting.repoFolder, 'refs', 'v1.0'), 'utf8')).toBe(COMMIT);
});

it('asks nothing but the list about a commit', async () => {
  await resolveModel('org/model', { revision: COMMIT, files: ['config.json'] });
  expect(setting.hub.paths('/api/')).toEqual([`/api/models/org/model/tree/${COMMIT}`]);
  expect(await readdir(join(setting.repoFolder, 'refs'))).toEqual([]);
});

it('reads a list that comes in pages', async () => {
  setting.hub.pageSize = 2;
  const path = await resolveModel('org/model');
  expect((await readdir(path)).sort()).toEqual([
    'config.json',
    'empty.txt',
    'model.safetensors',
    'onnx',
  ]);
  expect(setting.hub.paths('/tree/').length).toBe(3);
});

it('keeps names apart that differ only in case, where the file system does', async () => {
  const path = await resolveModel('org/cases').catch((error: unknown) => {
    expect(error).toMatchObject({
      message: expect.stringMatching(/another file's name/) as string,
    });
  });
  if (path === undefined) return;
  expect(await readFile(join(path, 'a.txt'), 'utf8')).toBe('small');
  expect(await readFile(join(path, 'A.txt'), 'utf8')).toBe('large');
});

describe('progress', () => {
  async function events(files?: string[]): Promise<DownloadProgress[]> {
    const seen: DownloadProgress[] = [];
    await resolveModel('org/model', { files, onProgress: (event) => seen.push(event) });
    return seen;
  }

  it('goes through the bytes of all files, the total known from the start', async () => {
    const seen = await events();
    const total = Object.values(tinyRepo.files).reduce(
      (sum, file) => sum + Buffer.byteLength(file),
      0,
    );
    expect(new Set(seen.map(({ totalBytes }) => totalBytes))).toEqual(new Set([total]));
    expect(seen[0].bytes).toBe(0);
    expect(seen.at(-1)!.bytes).toBe(total);
    const bytes = seen.map((event) => event.bytes);
    expect(bytes).toEqual([...bytes].sort((a, b) => a - b));
    expect(new Set(seen.map(({ file }) => file))).toEqual(new Set(Object.keys(tinyRepo.files)));
  });

  it('counts what was there', async () => {
    await resolveModel('org/model', { files: ['model.safetensors'] });
    const [first] = await events(['model.safetensors', 'config.json']);
    expect(first).toMatchObject({ bytes: weights.length, totalBytes: weights.length + 21 });
  });
});

describe('HUB-13: a check of config.json', () => {
  const refuse = (config: unknown) => {
    throw new CheckpointError(
      `Unknown model_type ${(config as { model_type: string }).model_type}.`,
    );
  };

  it('refuses a model before its weights are fetched, and leaves nothing', async () => {
    const error = await failure(
      resolveModel('org/model', { checkConfig: refuse }),
      CheckpointError,
    );
    expect(error.message).toBe('Unknown model_type tiny.');
    expect(setting.hub.paths('resolve/')).toEqual([`/org/model/resolve/${COMMIT}/config.json`]);
    expect(await readdir(setting.cache)).toEqual(['.locks']);
  });

  it('leaves a model alone that was there', async () => {
    await resolveModel('org/model', { files: ['config.json'] });
    await failure(resolveModel('org/model', { checkConfig: refuse }), CheckpointError);
    expect(await readFile(join(setting.snapshot, 'config.json'), 'utf8')).toContain('tiny');
  });

  it('gets the config of a model that passes, once', async () => {
    const seen: unknown[] = [];
    const path = await resolveModel('org/model', { checkConfig: (config) => seen.push(config) });
    await setting.expectWhole(path);
    expect(seen).toEqual([{ model_type: 'tiny' }]);
    expect(setting.hub.paths('config.json').length).toBe(1);
  });
});

describe('update', () => {
  it('asks what main is today, and fetches nothing twice', async () => {
    await resolveModel('org/model');
    const requests = setting.hub.requests.length;
    const found = await findModel('org/model', { update: true });
    expect(found).toMatchObject({ source: 'hub', commit: COMMIT });
    expect(setting.hub.paths().slice(requests)).toEqual(['/api/models/org/model/revision/main']);
  });

  it('is content with the cache when the hub is out of reach', async () => {
    await resolveModel('org/model');
    await setting.hub[Symbol.asyncDispose]();
    expect(await findModel('org/model', { update: true })).toMatchObject({ source: 'cache' });
  });
});

it('can be done by several at once', async () => {
  const paths = await Promise.all([1, 2, 3].map(() => fetchWeights()));
  expect(new Set(paths).size).toBe(1);
  await setting.expectWhole(paths[0]);
  expect(setting.hub.paths('resolve/').length).toBe(1);
  expect(await setting.blobs()).toEqual([weightsBlob]);
});
