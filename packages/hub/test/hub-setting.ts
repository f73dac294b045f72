/** A fake hub, empty caches and a clean environment for each test of a file. */
import { HubError, type MlxRunnersError } from '@mlx-runners/mlx-core/errors';
import { resolveModel, type FindModelOptions } from '@mlx-runners/hub';
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, vi } from 'vitest';
import { FakeHub, sha256, type FakeRepo } from './fake-hub.js';

export const COMMIT = 'c0ffee'.padEnd(40, '0');
export const weights = Buffer.from(Array.from({ length: 200_000 }, (_, i) => (i * i) % 251));
export const weightsBlob = sha256(weights);

export const tinyRepo: FakeRepo = {
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

const VARIABLES = [
  ...['HF_ENDPOINT', 'HF_HOME', 'HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE', 'XDG_CACHE_HOME'],
  ...['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN', 'HF_TOKEN_PATH', 'HF_HUB_DISABLE_IMPLICIT_TOKEN'],
  ...['HF_HUB_OFFLINE', 'TRANSFORMERS_OFFLINE', 'HF_HUB_ETAG_TIMEOUT', 'HF_HUB_DOWNLOAD_TIMEOUT'],
  ...['MLX_RUNNERS_CACHE', 'MLX_RUNNERS_SOURCE'],
];

export class HubSetting {
  hub!: FakeHub;
  folder!: string;
  readonly #repos: FakeRepo[];

  constructor(...repos: FakeRepo[]) {
    this.#repos = repos;
    beforeEach(async () => {
      this.folder = await realpath(await mkdtemp(join(tmpdir(), 'hub-test-')));
      this.hub = await FakeHub.start(...repos);
      for (const name of VARIABLES) vi.stubEnv(name, undefined);
      vi.stubEnv('HOME', join(this.folder, 'home'));
      vi.stubEnv('HF_ENDPOINT', `${this.hub.endpoint}/`);
      vi.stubEnv('HF_HUB_CACHE', this.cache);
      vi.stubEnv('MLX_RUNNERS_CACHE', join(this.folder, 'own'));
    });
    afterEach(async () => {
      vi.unstubAllEnvs();
      await this.hub[Symbol.asyncDispose]();
      await rm(this.folder, { recursive: true, force: true });
    });
  }

  get cache(): string {
    return join(this.folder, 'hf');
  }

  get repoFolder(): string {
    return join(this.cache, `models--${this.#repos[0].id.replace('/', '--')}`);
  }

  get snapshot(): string {
    return join(this.repoFolder, 'snapshots', this.#repos[0].commit);
  }

  blob(name = weightsBlob): string {
    return join(this.repoFolder, 'blobs', name);
  }

  blobs(): Promise<string[]> {
    return readdir(join(this.repoFolder, 'blobs')).catch(() => []);
  }

  goOffline(): void {
    vi.stubEnv('HF_HUB_OFFLINE', '1');
  }

  /** Nothing that could be taken for a model: no snapshot, no ref, no blob of the weights. */
  async expectNoModel(): Promise<void> {
    const names = await readdir(this.repoFolder, { recursive: true }).catch(() => []);
    expect(names.filter((name) => /making|snapshots\/|refs\//.test(name))).toEqual([]);
    expect(names).not.toContain(`blobs/${weightsBlob}`);
  }

  async expectWhole(path: string): Promise<void> {
    expect((await readFile(join(path, 'model.safetensors'))).equals(weights)).toBe(true);
  }
}

/** Without waits between tries. */
export const SOON: FindModelOptions = { retryWaits: [0, 0, 0] };

export function fetchWeights(options: FindModelOptions = {}): Promise<string> {
  return resolveModel('org/model', { ...SOON, files: ['model.safetensors'], ...options });
}

export async function failure(
  promise: Promise<unknown>,
  type: new (message: string) => MlxRunnersError = HubError,
): Promise<MlxRunnersError> {
  const outcome = await promise.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(type);
  return outcome as MlxRunnersError;
}
