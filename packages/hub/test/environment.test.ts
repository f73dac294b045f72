import { UsageError } from '@mlx-runners/mlx-core/errors';
import { findModel, huggingFaceCache, mlxRunnersCache, resolveModel } from '@mlx-runners/hub';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { COMMIT, failure, HubSetting, tinyRepo } from './hub-setting.js';

const setting = new HubSetting(tinyRepo);

function setEnv(variables: Record<string, string | undefined>): void {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
}

describe('HUB-03: where the cache lies', () => {
  it.each([
    [
      { HF_HUB_CACHE: '/x', HUGGINGFACE_HUB_CACHE: '/w', HF_HOME: '/y', XDG_CACHE_HOME: '/z' },
      '/x',
    ],
    [{ HUGGINGFACE_HUB_CACHE: '/w', HF_HOME: '/y', XDG_CACHE_HOME: '/z' }, '/w'],
    [{ HF_HOME: '/y', XDG_CACHE_HOME: '/z' }, '/y/hub'],
    [{ XDG_CACHE_HOME: '/z' }, '/z/huggingface/hub'],
    [{ HF_HUB_CACHE: '', HF_HOME: '', XDG_CACHE_HOME: '' }, '/me/.cache/huggingface/hub'],
    [{ HF_HUB_CACHE: '~/x' }, '/me/x'],
    [{ HF_HUB_CACHE: '~x/y' }, `${process.cwd()}/~x/y`],
    [{ HF_HUB_CACHE: '$HOME/a/${WHERE}/$UNSET_NAME' }, '/me/a/there/$UNSET_NAME'],
    [{ HF_HOME: '~' }, '/me/hub'],
    [{ HF_HUB_CACHE: 'x/../y' }, `${process.cwd()}/y`],
  ])('%j', (variables, place) => {
    setEnv({ HF_HUB_CACHE: undefined, HOME: '/me', WHERE: 'there', ...variables });
    expect(huggingFaceCache()).toBe(place);
  });

  it.each([
    [{ MLX_RUNNERS_CACHE: '~/own', XDG_CACHE_HOME: '/z' }, '/me/own'],
    [{ XDG_CACHE_HOME: '/z' }, '/z/mlx-runners'],
    [{}, '/me/.cache/mlx-runners'],
  ])('our own: %j', (variables, place) => {
    setEnv({ MLX_RUNNERS_CACHE: undefined, HOME: '/me', ...variables });
    expect(mlxRunnersCache()).toBe(place);
  });

  it('is where models are put', async () => {
    setEnv({ HF_HUB_CACHE: undefined, HF_HOME: join(setting.folder, 'y') });
    const path = await resolveModel('org/model', { files: ['config.json'] });
    expect(path).toBe(join(setting.folder, 'y/hub/models--org--model/snapshots', COMMIT));
  });
});

describe('the token', () => {
  async function sent(): Promise<(string | undefined)[]> {
    await resolveModel('org/model', { files: ['config.json'] });
    return [...new Set(setting.hub.requests.map(({ headers }) => headers.authorization))];
  }

  async function logIn(file: string, token: string): Promise<void> {
    await mkdir(join(setting.folder, file, '..'), { recursive: true });
    await writeFile(join(setting.folder, file), token);
  }

  it('is that of HF_TOKEN, whatever it looks like', async () => {
    setEnv({ HF_TOKEN: ' secret\r\n', HUGGING_FACE_HUB_TOKEN: 'old' });
    expect(await sent()).toEqual(['Bearer secret']);
  });

  it('is that of HUGGING_FACE_HUB_TOKEN', async () => {
    setEnv({ HF_TOKEN: '', HUGGING_FACE_HUB_TOKEN: 'old' });
    expect(await sent()).toEqual(['Bearer old']);
  });

  it.each([
    ['home/.cache/huggingface/token', {}],
    ['hf-home/token', { HF_HOME: 'hf-home' }],
    ['elsewhere/mine', { HF_HOME: 'hf-home', HF_TOKEN_PATH: 'elsewhere/mine' }],
  ])('is that of "hf auth login" in %s', async (file, variables) => {
    await logIn(file, 'hf_login\n');
    const absolute = Object.entries(variables).map(([name, path]) => [
      name,
      join(setting.folder, path),
    ]);
    setEnv(Object.fromEntries(absolute) as Record<string, string>);
    vi.stubEnv('HF_TOKEN', '  ');
    expect(await sent()).toEqual(['Bearer hf_login']);
  });

  it('is not sent when HF_HUB_DISABLE_IMPLICIT_TOKEN says so', async () => {
    setEnv({ HF_TOKEN: 'secret', HF_HUB_DISABLE_IMPLICIT_TOKEN: 'yes' });
    expect(await sent()).toEqual([undefined]);
  });

  it('is never repeated in an error', async () => {
    setEnv({ HF_TOKEN: 'sécret token' });
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/HF_TOKEN/);
    expect(error.message).not.toContain('cret');
    expect(setting.hub.requests).toEqual([]);
  });
});

describe('offline', () => {
  it.each([
    [{ HF_HUB_OFFLINE: '1' }, true],
    [{ HF_HUB_OFFLINE: 'ON' }, true],
    [{ HF_HUB_OFFLINE: 'yes' }, true],
    [{ HF_HUB_OFFLINE: 'True' }, true],
    [{ HF_HUB_OFFLINE: '', TRANSFORMERS_OFFLINE: '1' }, true],
    [{ HF_HUB_OFFLINE: '0', TRANSFORMERS_OFFLINE: '1' }, false],
    [{ HF_HUB_OFFLINE: '2' }, false],
    [{ HF_HUB_OFFLINE: ' 1' }, false],
    [{}, false],
  ])('%j: %s', async (variables, isOffline) => {
    setEnv(variables);
    await findModel('org/model', { files: ['config.json'] }).catch(() => undefined);
    expect(setting.hub.requests.length === 0).toBe(isOffline);
  });
});

describe('what makes no sense is misuse', () => {
  it.each([
    [{ HF_ENDPOINT: 'huggingface.co' }, /HF_ENDPOINT is "huggingface\.co"; it must be an address/],
    [{ HF_ENDPOINT: 'ftp://x' }, /must be an address such as https:/],
    [{ HF_ENDPOINT: 'https://me:secret@x' }, /must not hold a user or password/],
    [{ HF_HUB_ETAG_TIMEOUT: 'soon' }, /HF_HUB_ETAG_TIMEOUT is "soon"/],
    [{ HF_HUB_DOWNLOAD_TIMEOUT: '-1' }, /HF_HUB_DOWNLOAD_TIMEOUT is "-1"/],
    [{ MLX_RUNNERS_SOURCE: 'moon' }, /MLX_RUNNERS_SOURCE is "moon"/],
  ])('%j', async (variables, message) => {
    setEnv(variables);
    const error = await failure(resolveModel('org/model'), UsageError);
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain('secret');
  });
});
