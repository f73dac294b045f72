/** What the reference made of real prompts and texts. */
import { readGolden } from '@mlx-runners/runner';
import { fixturePath } from '@mlx-runners/test-fixtures';
import { describe, expect, it } from 'vitest';
import { greedyGolden, perplexityGolden } from '../src/golden-texts.js';
import { loadOrSkip } from './weights.js';

const goldens = [
  ['smollm2', 'real_smollm2.json', 'perplexity_smollm2.json'],
  ['gemma-3-270m', 'real_gemma3_270m.json', 'perplexity_gemma3_270m.json'],
] as const;

describe.each(goldens)('%s', async (id, greedy, perplexity) => {
  const model = await loadOrSkip(id);
  await model?.dispose();

  it('writes what the reference writes', async () => {
    const results = await greedyGolden.check(await readGolden(fixturePath(greedy)), {});
    expect(results.filter(({ ok }) => !ok)).toEqual([]);
    expect(results).toHaveLength(15);
  });

  it.each(['exact', 'fast'] as const)(
    'predicts a text as the reference does, %s',
    async (precision) => {
      const fixture = await readGolden(fixturePath(perplexity));
      const results = await perplexityGolden.check(fixture, { precision });
      expect(results.filter(({ ok }) => !ok)).toEqual([]);
      expect(results).toHaveLength(3);
    },
  );
});
