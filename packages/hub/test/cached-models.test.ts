import { listModels, removeModel, resolveModel, verifyModel } from '@mlx-runners/hub';
import { mkdir, readdir, readFile, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { gitBlobId, sha256, type FakeRepo } from './fake-hub.js';
import { COMMIT, failure, HubSetting, tinyRepo, weights, weightsBlob } from './hub-setting.js';

/** A later commit of the repository: another config, the same weights. */
const NEXT = 'd'.repeat(40);
const next: FakeRepo = {
  ...tinyRepo,
  id: 'org/next',
  commit: NEXT,
  refs: ['dev'],
  files: { 'config.json': '{"model_type":"newer"}', 'model.safetensors': weights },
};
const setting = new HubSetting(tinyRepo, next);
const models = { 'org/model': { license: 'MIT', files: ['config.json', 'model.safetensors'] } };

const bytesOf = ({ files }: FakeRepo) =>
  Object.values(files).reduce((sum, content) => sum + Buffer.byteLength(content), 0);

/** Both commits in one folder, as if they were of one repository. */
async function fetchTwoCommits(): Promise<void> {
  await resolveModel('org/model');
  await resolveModel('org/next', { revision: 'dev' });
  const other = join(setting.cache, 'models--org--next');
  const config = gitBlobId(next.files['config.json']);
  await rename(join(other, 'blobs', config), setting.blob(config));
  for (const name of [`snapshots/${NEXT}`, `trees/${NEXT}.json`, 'refs/dev']) {
    await rename(join(other, name), join(setting.repoFolder, name));
  }
  await rm(other, { recursive: true });
}

describe('the list', () => {
  it('is empty where there is nothing', async () => {
    expect(await listModels()).toEqual([]);
  });

  it('has each revision with its size', async () => {
    await fetchTwoCommits();
    await mkdir(join(setting.cache, 'datasets--org--data'));
    const common = { id: 'org/model', source: 'cache', missing: [] };
    expect(await listModels({ models })).toEqual([
      {
        ...common,
        revision: COMMIT,
        refs: ['main'],
        path: setting.snapshot,
        files: 4,
        bytes: bytesOf(tinyRepo),
      },
      {
        ...common,
        revision: NEXT,
        refs: ['dev'],
        path: join(setting.repoFolder, 'snapshots', NEXT),
        files: 2,
        bytes: bytesOf(next),
      },
    ]);
    expect(await listModels({ id: 'org/mode' })).toEqual([]);
  });

  it('says what is missing of that which the runner wants', async () => {
    await resolveModel('org/model', { files: models['org/model'].files });
    expect(await listModels({ models })).toMatchObject([{ missing: [] }]);
    expect(await listModels()).toMatchObject([{ missing: ['onnx/model.onnx', 'empty.txt'] }]);
    await rm(setting.blob());
    expect(await listModels({ models })).toMatchObject([{ missing: ['model.safetensors'] }]);
  });
});

describe('removing', () => {
  it('takes all of a model, and says how many bytes that frees', async () => {
    await resolveModel('org/model');
    await resolveModel('org/next', { revision: 'dev' });
    await writeFile(setting.blob(`${weightsBlob}.mlx-00000000.incomplete`), 'part');
    const tree = await readFile(join(setting.repoFolder, `trees/${COMMIT}.json`));
    const { bytes } = await removeModel('org/model');
    expect(bytes).toBe(bytesOf(tinyRepo) + 4 + tree.length + COMMIT.length);
    expect((await readdir(setting.cache)).sort()).toEqual(['.locks', 'models--org--next']);
  });

  it('takes a revision, and leaves what others need', async () => {
    await fetchTwoCommits();
    const { bytes } = await removeModel('org/model', { revision: 'main' });
    expect(bytes).toBe(bytesOf(tinyRepo) - weights.length);
    expect(await listModels()).toMatchObject([{ revision: NEXT, refs: ['dev'], missing: [] }]);
    expect((await setting.blobs()).sort()).toEqual(
      [weightsBlob, gitBlobId(next.files['config.json'])].sort(),
    );
    expect(await removeModel('org/model', { revision: NEXT.slice(0, 8) })).toEqual({
      bytes: bytesOf(next),
    });
    expect(await readdir(setting.cache)).toEqual(['.locks']);
  });

  it('needs the exact id', async () => {
    await resolveModel('org/model');
    for (const id of ['org/mode', 'org', 'ORG/model', 'org/model/']) {
      const error = await failure(removeModel(id));
      expect(error.message).toMatch(/is not in .*hf or .*own; there is org\/model\./);
    }
    const error = await failure(removeModel('org/model', { revision: 'v9' }));
    expect(error.message).toContain('org/model at "v9" is not in');
    await setting.expectWhole(setting.snapshot);
  });

  it('never follows a link out of the cache', async () => {
    await resolveModel('org/model');
    const outside = join(setting.folder, 'outside');
    await mkdir(outside);
    await writeFile(join(outside, weightsBlob), 'precious');
    const link = join(setting.snapshot, 'stray');
    await symlink(outside, link);
    await unlink(join(setting.snapshot, 'model.safetensors'));
    await symlink(join(outside, weightsBlob), join(setting.snapshot, 'model.safetensors'));
    await removeModel('org/model', { revision: 'main' });
    expect(await readFile(join(outside, weightsBlob), 'utf8')).toBe('precious');
    expect(await setting.blobs()).toEqual([weightsBlob]);
  });

  it('of a folder that is itself a link takes the link only', async () => {
    await resolveModel('org/model');
    const elsewhere = join(setting.folder, 'elsewhere');
    await rename(setting.repoFolder, elsewhere);
    await symlink(elsewhere, setting.repoFolder);
    const error = await failure(removeModel('org/model', { revision: 'main' }));
    expect(error.message).toMatch(/leads out of the cache/);
    expect(await removeModel('org/model')).toEqual({ bytes: 0 });
    expect(await readdir(setting.cache)).toEqual(['.locks']);
    await setting.expectWhole(join(elsewhere, 'snapshots', COMMIT));
  });

  it('waits for nobody who is fetching the model', async () => {
    const abort = new AbortController();
    let fetching: Promise<unknown> | undefined;
    await new Promise<void>((resolve) => {
      setting.hub.faults.set('config.json', () => resolve());
      fetching = resolveModel('org/model', { signal: abort.signal }).catch(() => undefined);
    });
    expect((await failure(removeModel('org/model'))).message).toMatch(
      /being fetched by another process/,
    );
    abort.abort();
    await fetching;
  });
});

describe('verifying', () => {
  it('passes what is right, large and small', async () => {
    await fetchTwoCommits();
    const events: number[] = [];
    const verified = await verifyModel(undefined, {
      onProgress: ({ bytes }) => events.push(bytes),
    });
    expect(verified).toMatchObject([
      { revision: COMMIT, damaged: [], unknown: [], missing: [] },
      { revision: NEXT, damaged: [], unknown: [], missing: [] },
    ]);
    expect(events.at(-1)).toBe(bytesOf(tinyRepo) + bytesOf(next));
  });

  it.each([
    ['with the list of files', () => Promise.resolve()],
    ['by the names of blobs', () => rm(join(setting.repoFolder, 'trees'), { recursive: true })],
  ])('names damaged files, %s', async (_, prepare) => {
    await resolveModel('org/model');
    await prepare();
    const changed = Buffer.from(weights);
    changed[100_000] ^= 1;
    await writeFile(setting.blob(), changed);
    await writeFile(
      setting.blob(gitBlobId(tinyRepo.files['config.json'])),
      '{"model_type":"tinY"}',
    );
    const [{ damaged }] = await verifyModel('org/model');
    expect(damaged.sort()).toEqual(['config.json', 'model.safetensors']);
  });

  it('names missing files, and those it knows nothing of', async () => {
    const path = await resolveModel('org/model');
    await rm(setting.blob());
    await writeFile(join(path, 'notes.txt'), 'mine');
    expect(await verifyModel('org/model')).toMatchObject([
      { damaged: [], missing: ['model.safetensors'], unknown: ['notes.txt'] },
    ]);
  });

  it('of a link to another blob finds that it is the wrong one', async () => {
    const path = await resolveModel('org/model');
    await unlink(join(path, 'config.json'));
    await symlink(`../../blobs/${sha256(weights)}`, join(path, 'config.json'));
    expect(await verifyModel('org/model')).toMatchObject([{ damaged: ['config.json'] }]);
  });

  it('of a model that is not there fails', async () => {
    expect((await failure(verifyModel('org/model'))).message).toMatch(/there is nothing/);
  });
});
