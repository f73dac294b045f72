/** A long text takes no more memory than its keys and values. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { LanguageModel } from '@mlx-runners/lm';
import { writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lm-long-text-'));
afterAll(() => rmSync(scratch, { recursive: true }));

it('keeps handles and memory flat over 5,000 tokens', async () => {
  const folder = writeTinyLanguageModel(scratch, {
    golden: 'tiny_llama_tied',
    config: { max_position_embeddings: 6000 },
  });
  // Room for all keys and values from the start, so that nothing but a leak grows.
  await using model = await LanguageModel.load(folder, { kvCache: { initialCapacity: 6000 } });
  const samples: { arrays: number; active: number }[] = [];
  let tokens = 0;
  const options = { temperature: 1, seed: 7, ignoreStopIds: true, maxTokens: 5000 };
  for await (const part of model.generate([3, 17, 42], options)) {
    tokens += part.tokens.length;
    if (tokens < 1000 * (samples.length + 1)) continue;
    const { arrays, active } = mx.memory();
    samples.push({ arrays, active });
  }
  expect(tokens).toBe(5000);
  expect(samples).toHaveLength(5);
  const [first] = samples;
  for (const { arrays, active } of samples.slice(1)) {
    expect(arrays).toBe(first.arrays);
    // What a step holds depends on when it is looked at.
    expect(Math.abs(active - first.active)).toBeLessThan(1e6);
  }
}, 60_000);
