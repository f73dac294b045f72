import { findModel, resolveModel } from '@mlx-runners/hub';
import { chmod, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { COMMIT, failure, HubSetting, tinyRepo } from './hub-setting.js';

const setting = new HubSetting(tinyRepo);

describe('a model in the cache', () => {
  it('is found without any request (HUB-05)', async () => {
    await resolveModel('org/model');
    const requests = setting.hub.requests.length;
    for (const revision of [undefined, 'main', COMMIT, COMMIT.slice(0, 8)]) {
      const found = await findModel('org/model', { revision });
      expect(found).toMatchObject({ source: 'cache', id: 'org/model', commit: COMMIT });
    }
    expect(setting.hub.requests.length).toBe(requests);
  });

  it('is found offline by branch, tag, commit and the start of it (HUB-11)', async () => {
    await resolveModel('org/model');
    await resolveModel('org/model', { revision: 'v1.0' });
    setting.goOffline();
    for (const revision of ['main', 'v1.0', COMMIT, COMMIT.slice(0, 7)]) {
      expect(await findModel('org/model', { revision })).toMatchObject({ commit: COMMIT });
    }
    const error = await failure(findModel('org/model', { revision: 'v2.0' }));
    expect(error.message).toMatch(/org\/model at "v2\.0" is not in .*HF_HUB_OFFLINE forbids/);
  });

  it('is found offline with its subfolders (HUB-17)', async () => {
    await resolveModel('org/model', { files: ['onnx/model.onnx'] });
    setting.goOffline();
    for (const files of [['onnx/*'], ['*.onnx'], ['onnx/model.onnx']]) {
      const path = await resolveModel('org/model', { files });
      expect(await readFile(join(path, 'onnx/model.onnx'), 'utf8')).toBe('not needed');
    }
  });

  it('is found in a folder that may not be written', async () => {
    await resolveModel('org/model');
    const folders = ['snapshots', 'refs', 'trees', 'blobs'].map((name) =>
      join(setting.repoFolder, name),
    );
    for (const folder of [setting.cache, setting.repoFolder, ...folders])
      await chmod(folder, 0o555);
    await setting.expectWhole(await resolveModel('org/model'));
    for (const folder of [setting.cache, setting.repoFolder, ...folders])
      await chmod(folder, 0o755);
  });

  it('is not passed for a whole one when a file is missing (HUB-01)', async () => {
    const path = await resolveModel('org/model');
    await rm(join(path, 'model.safetensors'));
    setting.goOffline();
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/incomplete in .*: model\.safetensors missing/);
    vi.stubEnv('HF_HUB_OFFLINE', '0');
    expect(await resolveModel('org/model')).toBe(path);
    await setting.expectWhole(path);
  });

  it('of another tool is judged by what it holds', async () => {
    const path = await resolveModel('org/model');
    await rm(join(setting.repoFolder, 'trees'), { recursive: true });
    setting.goOffline();
    expect(await resolveModel('org/model')).toBe(path);
    const index = { weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } };
    await writeFile(join(path, 'model.safetensors.index.json'), JSON.stringify(index));
    expect((await failure(resolveModel('org/model'))).message).toContain('model-1.safetensors');
    await rm(join(path, 'model.safetensors.index.json'));
    await rm(join(setting.repoFolder, 'blobs'), { recursive: true });
    expect((await failure(resolveModel('org/model'))).message).toContain('config.json');
  });

  it('of another tool that was interrupted is not passed for a whole one (HUB-01)', async () => {
    await resolveModel('org/model', { files: ['onnx/*', 'config.json'] });
    await rm(join(setting.repoFolder, 'trees'), { recursive: true });
    const part = setting.blob('0123.incomplete');
    await writeFile(part, '');
    setting.goOffline();
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/incomplete .*blobs\/0123\.incomplete missing/);
    await resolveModel('org/model', { files: ['config.json'] });
    vi.stubEnv('HF_HUB_OFFLINE', undefined);
    await setting.expectWhole(await resolveModel('org/model'));
  });

  it('with only a config is none', async () => {
    await resolveModel('org/model', { files: ['config.json'] });
    await rm(join(setting.repoFolder, 'trees'), { recursive: true });
    setting.goOffline();
    expect((await failure(resolveModel('org/model'))).message).toContain('any weights missing');
  });

  it('as a whole main serves in place of a pin that is not there', async () => {
    await resolveModel('org/model');
    setting.goOffline();
    const models = { 'org/model': { license: 'MIT', revision: 'd'.repeat(40) } };
    expect(await findModel('org/model', { models })).toMatchObject({ commit: COMMIT });
    await failure(findModel('org/model', { models, revision: 'd'.repeat(40) }));
  });

  it('with a ref that is no commit is not followed', async () => {
    await resolveModel('org/model');
    await writeFile(join(setting.repoFolder, 'refs/main'), '../../../..');
    setting.goOffline();
    expect((await failure(resolveModel('org/model'))).message).toContain('is not in');
  });

  it('with a damaged list is judged without it', async () => {
    await resolveModel('org/model');
    await writeFile(join(setting.repoFolder, `trees/${COMMIT}.json`), '{"format_version":1,"fi');
    setting.goOffline();
    await setting.expectWhole(await resolveModel('org/model'));
  });
});

it('a model that is not there is called so, without a request', async () => {
  setting.goOffline();
  const error = await failure(resolveModel('org/model'));
  expect(error.message).toMatch(/is not in .*HF_HUB_OFFLINE forbids/);
  expect(setting.hub.requests.length).toBe(0);
  await expect(readdir(setting.cache)).rejects.toThrow('ENOENT');
});

describe('a path', () => {
  it('is returned as it is', async () => {
    const file = join(setting.folder, 'model.gguf');
    await writeFile(file, '');
    expect(await findModel(file)).toEqual({ path: file, source: 'path' });
    expect(await resolveModel(setting.folder)).toBe(setting.folder);
  });

  it.each(['./nowhere', '/nowhere/model', 'a/b/c', '../x', 'org/..', 'a--b/c', ''])(
    'that does not exist is not taken for an id: "%s"',
    async (path) => {
      expect((await failure(resolveModel(path))).message).toContain('no file or folder');
      expect(setting.hub.requests.length).toBe(0);
    },
  );

  it('is no revision', async () => {
    await failure(resolveModel('org/model', { revision: '../../x' }));
    expect(setting.hub.requests.length).toBe(0);
  });
});

describe('a name that is no id', () => {
  const models = {
    'openai/whisper-tiny': { license: 'MIT', aliases: ['whisper-tiny', 'tiny'] },
    'openai/whisper-base': { license: 'MIT' },
  };

  it('is answered with the names that there are', async () => {
    const error = await failure(resolveModel('nope', { models }));
    expect(error.message).toMatch(
      /no file or folder "nope".*Short names are whisper-tiny, openai\/whisper-base\./,
    );
    expect(setting.hub.requests.length).toBe(0);
  });

  it('is answered with the name that was meant', async () => {
    const error = await failure(resolveModel('whisper-tny', { models }));
    expect(error.message).toContain('no short name of a model. Did you mean whisper-tiny?');
  });

  it('is asked for where there are no names', async () => {
    expect((await failure(resolveModel('nope'))).message).toContain('404 for nope');
  });
});
