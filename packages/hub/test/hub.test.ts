import { AbortedError, HubError } from '@mlx-runners/mlx-core/errors';
import { findModel, resolveModel, type DownloadProgress } from '@mlx-runners/hub';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FakeHub, type FakeRepo } from './fake-hub.js';

const COMMIT = 'c0ffee'.padEnd(40, '0');
const weights = Buffer.from(Array.from({ length: 200_000 }, (_, i) => i % 251));
const repo: FakeRepo = {
  id: 'org/model',
  commit: COMMIT,
  refs: ['main', 'v1.0'],
  files: {
    'config.json': '{"model_type":"tiny"}',
    'model.safetensors': weights,
    'onnx/model.onnx': 'not needed',
    'empty.txt': '',
  },
  lfs: ['model.safetensors'],
};

let folder: string;
let hub: FakeHub;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hub-test-'));
  hub = await FakeHub.start(repo);
  vi.stubEnv('HF_ENDPOINT', `${hub.endpoint}/`);
  vi.stubEnv('HF_HUB_CACHE', join(folder, 'hf'));
  vi.stubEnv('MLX_RUNNERS_CACHE', join(folder, 'own'));
  vi.stubEnv('MLX_RUNNERS_SOURCE', undefined);
  vi.stubEnv('HF_HUB_OFFLINE', undefined);
  vi.stubEnv('HF_TOKEN', undefined);
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await hub[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const repoFolder = () => join(folder, 'hf', 'models--org--model');
const goOffline = () => vi.stubEnv('HF_HUB_OFFLINE', '1');

async function failure(promise: Promise<unknown>): Promise<Error> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(HubError);
  return outcome as Error;
}

/** Nothing half-made: no incomplete blobs, no snapshot, no ref. */
async function expectNoSnapshot(): Promise<void> {
  const names = await readdir(repoFolder(), { recursive: true }).catch(() => []);
  expect(names.filter((name) => /incomplete|making|snapshots\/|refs\//.test(name))).toEqual([]);
}

describe('a download', () => {
  it("makes the layout of Python's cache", async () => {
    const path = await resolveModel('org/model');
    expect(path).toBe(join(repoFolder(), 'snapshots', COMMIT));
    expect((await readFile(join(path, 'model.safetensors'))).equals(weights)).toBe(true);
    expect(await readFile(join(path, 'empty.txt'), 'utf8')).toBe('');
    expect(await readFile(join(repoFolder(), 'refs', 'main'), 'utf8')).toBe(COMMIT);
    const sha256 = createHash('sha256').update(weights).digest('hex');
    expect(await readlink(join(path, 'model.safetensors'))).toBe(`../../blobs/${sha256}`);
    expect(await readlink(join(path, 'onnx/model.onnx'))).toMatch(/^\.\.\/\.\.\/\.\.\/blobs\//);
    expect((await readdir(repoFolder())).sort()).toEqual(['blobs', 'refs', 'snapshots']);
    expect((await readdir(join(repoFolder(), 'blobs'))).length).toBe(4);
  });

  it('takes only the files asked for', async () => {
    const path = await resolveModel('org/model', { files: ['*.json', 'model.safetensors'] });
    expect((await readdir(path)).sort()).toEqual(['config.json', 'model.safetensors']);
  });

  it('is extended when more is asked for, without fetching anything twice', async () => {
    await resolveModel('org/model', { files: ['config.json'] });
    const path = await resolveModel('org/model', { files: ['config.json', 'onnx/*'] });
    expect((await readdir(path)).sort()).toEqual(['config.json', 'onnx']);
    expect(hub.paths('resolve/').length).toBe(2);
  });

  it('reports bytes', async () => {
    const events: DownloadProgress[] = [];
    await resolveModel('org/model', {
      files: ['model.safetensors'],
      onProgress: (event) => events.push(event),
    });
    const sized = { file: 'model.safetensors', totalBytes: weights.length };
    expect(events[0]).toEqual({ ...sized, bytes: 0 });
    expect(events.at(-1)).toEqual({ ...sized, bytes: weights.length });
  });

  it('sends HF_TOKEN, whatever it looks like', async () => {
    vi.stubEnv('HF_TOKEN', 'secret');
    await resolveModel('org/model', { files: ['config.json'] });
    expect(hub.requests.every(({ headers }) => headers.authorization === 'Bearer secret')).toBe(
      true,
    );
  });

  it('can be done by several at once', async () => {
    const paths = await Promise.all([1, 2, 3].map(() => resolveModel('org/model')));
    expect(new Set(paths).size).toBe(1);
    expect((await readFile(join(paths[0], 'model.safetensors'))).equals(weights)).toBe(true);
    expect((await readdir(repoFolder())).sort()).toEqual(['blobs', 'refs', 'snapshots']);
  });

  it('asks for a tag', async () => {
    await resolveModel('org/model', { revision: 'v1.0', files: ['config.json'] });
    expect(await readFile(join(repoFolder(), 'refs', 'v1.0'), 'utf8')).toBe(COMMIT);
  });
});

describe('a faulty hub', () => {
  it('goes on where a connection broke off', async () => {
    let broken = 0;
    hub.faults.set('model.safetensors', (request, response) => {
      const from = Number(/\d+/.exec(request.headers.range ?? '0')![0]);
      response.writeHead(from > 0 ? 206 : 200, { 'content-length': weights.length - from });
      if (broken++ < 2) {
        response.write(weights.subarray(from, from + 50_000), () => response.destroy());
      } else {
        response.end(weights.subarray(from));
      }
    });
    const path = await resolveModel('org/model', { files: ['model.safetensors'] });
    expect((await readFile(join(path, 'model.safetensors'))).equals(weights)).toBe(true);
    expect(broken).toBe(3);
    expect(hub.requests.at(-1)!.headers.range).toMatch(/^bytes=[1-9]/);
  });

  it('starts again where the server knows no ranges', async () => {
    let first = true;
    hub.faults.set('model.safetensors', (_, response) => {
      response.writeHead(200, { 'content-length': weights.length });
      if (first) response.write(weights.subarray(0, 50_000), () => response.destroy());
      else response.end(weights);
      first = false;
    });
    const path = await resolveModel('org/model', { files: ['model.safetensors'] });
    expect((await readFile(join(path, 'model.safetensors'))).equals(weights)).toBe(true);
  });

  it('gives up a connection that breaks off again and again', async () => {
    hub.faults.set('model.safetensors', (_, response) => {
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, 10), () => response.destroy());
    });
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/10 of 200000 bytes of model\.safetensors/);
    await expectNoSnapshot();
  });

  it('refuses content of another checksum', async () => {
    hub.faults.set('model.safetensors', (_, response) => response.end(Buffer.alloc(200_000)));
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toContain(createHash('sha256').update(weights).digest('hex'));
    const found = createHash('sha256').update(Buffer.alloc(200_000)).digest('hex');
    expect(error.message).toContain(found);
    await expectNoSnapshot();
  });

  it('checks small files too', async () => {
    hub.faults.set('config.json', (_, response) => response.end('{"model_type":"evil"}'));
    expect((await failure(resolveModel('org/model'))).message).toMatch(/config\.json .*git blob/);
  });

  it('refuses more content than was listed', async () => {
    hub.faults.set('config.json', (_, response) => response.end('x'.repeat(1000)));
    expect((await failure(resolveModel('org/model'))).message).toContain('21 bytes');
    await expectNoSnapshot();
  });

  it('tries a 503 again and then fails', async () => {
    hub.faults.set('model.safetensors', (_, response) => response.writeHead(503).end());
    expect((await failure(resolveModel('org/model'))).message).toMatch(/503.*try again later/);
    expect(hub.paths('model.safetensors').length).toBe(4);
    await expectNoSnapshot();
  });

  it('survives a single 500', async () => {
    let failed = false;
    hub.faults.set('/tree/', (_, response) => {
      hub.faults.clear();
      failed = true;
      response.writeHead(500).end();
    });
    await resolveModel('org/model', { files: ['config.json'] });
    expect(failed).toBe(true);
  });

  it('says what to do about a model that does not exist', async () => {
    const error = await failure(resolveModel('org/typo'));
    expect(error.message).toMatch(/404 for org\/typo at "main".*Check the name/);
  });

  it('says what to do about a gated model', async () => {
    hub.faults.set('/revision/', (_, response) => response.writeHead(403).end());
    expect((await failure(resolveModel('org/model'))).message).toContain('set HF_TOKEN');
  });

  it('says which revision does not exist', async () => {
    const error = await failure(resolveModel('org/model', { revision: 'v9' }));
    expect(error.message).toContain('Invalid rev id: v9');
  });

  it('says which file does not exist', async () => {
    const error = await failure(resolveModel('org/model', { files: ['model.bin'] }));
    expect(error.message).toMatch(/no file "model\.bin"; it has config\.json, model\.safetensors/);
  });

  it('refuses an answer that is no JSON', async () => {
    hub.faults.set('/revision/', (_, response) => response.end('<html>'));
    expect((await failure(resolveModel('org/model'))).message).toContain('Unusable answer');
  });

  it.each(['../../evil', '/etc/evil', 'a\\..\\evil', 'C:evil'])(
    'refuses a file named %s',
    async (path) => {
      const entry = { type: 'file', path, size: 1, oid: 'a'.repeat(40) };
      hub.faults.set('/tree/', (_, response) => response.end(JSON.stringify([entry])));
      expect((await failure(resolveModel('org/model'))).message).toContain('refused');
    },
  );

  it('stops when it is aborted', async () => {
    const abort = new AbortController();
    hub.faults.set('model.safetensors', (_, response) => {
      response.writeHead(200);
      response.write(weights.subarray(0, 1000), () => abort.abort());
    });
    const download = resolveModel('org/model', { signal: abort.signal });
    await expect(download).rejects.toBeInstanceOf(AbortedError);
    await expectNoSnapshot();
  });
});

describe('the cache', () => {
  it('is asked before the hub', async () => {
    await resolveModel('org/model');
    const requests = hub.requests.length;
    for (const revision of ['main', COMMIT, COMMIT.slice(0, 8)]) {
      const found = await findModel('org/model', { revision });
      expect(found).toMatchObject({ source: 'cache', id: 'org/model', commit: COMMIT });
    }
    expect(hub.requests.length).toBe(requests);
  });

  it('serves offline, subfolders too', async () => {
    await resolveModel('org/model', { revision: 'v1.0' });
    goOffline();
    const path = await resolveModel('org/model', { revision: 'v1.0', files: ['onnx/*'] });
    expect(await readFile(join(path, 'onnx/model.onnx'), 'utf8')).toBe('not needed');
  });

  it('does not pass an incomplete snapshot for a whole one', async () => {
    const path = await resolveModel('org/model');
    await rm(join(path, 'model.safetensors'));
    goOffline();
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/incomplete in .*: model\.safetensors missing/);
    vi.stubEnv('HF_HUB_OFFLINE', '0');
    expect(await resolveModel('org/model')).toBe(path);
    expect((await readFile(join(path, 'model.safetensors'))).equals(weights)).toBe(true);
  });

  it('judges a snapshot of another tool by what it holds', async () => {
    const path = await resolveModel('org/model');
    await rm(join(folder, 'own'), { recursive: true });
    goOffline();
    expect(await resolveModel('org/model')).toBe(path);
    const index = { weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } };
    await writeFile(join(path, 'model.safetensors.index.json'), JSON.stringify(index));
    expect((await failure(resolveModel('org/model'))).message).toContain('model-1.safetensors');
    await rm(join(path, 'model.safetensors.index.json'));
    await rm(join(repoFolder(), 'blobs'), { recursive: true });
    expect((await failure(resolveModel('org/model'))).message).toContain('config.json');
  });

  it('does not take a folder with only a config for a model', async () => {
    await resolveModel('org/model', { files: ['config.json'] });
    await rm(join(folder, 'own'), { recursive: true });
    goOffline();
    expect((await failure(resolveModel('org/model'))).message).toContain('any weights missing');
  });

  it('serves a whole main in place of a pin that is not there', async () => {
    await resolveModel('org/model');
    goOffline();
    const models = { 'org/model': { license: 'MIT', revision: 'd'.repeat(40) } };
    expect(await findModel('org/model', { models })).toMatchObject({ commit: COMMIT });
    await failure(findModel('org/model', { models, revision: 'd'.repeat(40) }));
  });

  it('is looked for where Python looks', async () => {
    const places = { HF_HUB_CACHE: 'a', HF_HOME: 'b/hub', XDG_CACHE_HOME: 'c/huggingface/hub' };
    for (const [name, place] of Object.entries(places)) vi.stubEnv(name, join(folder, place[0]));
    for (const [name, place] of Object.entries(places)) {
      const path = await resolveModel('org/model', { files: ['config.json'] });
      expect(path).toBe(join(folder, place, 'models--org--model/snapshots', COMMIT));
      vi.stubEnv(name, undefined);
    }
  });

  it('says that a model is not there', async () => {
    goOffline();
    const error = await failure(resolveModel('org/model'));
    expect(error.message).toMatch(/is not in .*HF_HUB_OFFLINE forbids/);
    expect(hub.requests.length).toBe(0);
  });
});

describe('a path', () => {
  it('is returned as it is', async () => {
    const file = join(folder, 'model.gguf');
    await writeFile(file, '');
    expect(await findModel(file)).toEqual({ path: file, source: 'path' });
    expect(await resolveModel(folder)).toBe(folder);
  });

  it.each(['./nowhere', '/nowhere/model', 'a/b/c', '../x', 'org/..', ''])(
    'that does not exist is not taken for an id: "%s"',
    async (path) => {
      expect((await failure(resolveModel(path))).message).toContain('no file or folder');
      expect(hub.requests.length).toBe(0);
    },
  );

  it('is no revision', async () => {
    await failure(resolveModel('org/model', { revision: '../../x' }));
    expect(hub.requests.length).toBe(0);
  });
});

it('says how to go on when the hub is out of reach', async () => {
  await hub[Symbol.asyncDispose]();
  const error = await failure(resolveModel('org/model'));
  expect(error.message).toMatch(/Can't reach http:.*ECONNREFUSED.*not in the cache.*HF_ENDPOINT/);
});
