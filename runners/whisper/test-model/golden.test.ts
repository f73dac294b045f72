import { describe, expect, it } from 'vitest';
import { readGolden } from '@mlx-runners/runner';
import { fixturePath } from '@mlx-runners/test-fixtures';
import { goldenCheckers } from '../src/golden.js';
import { loadDefaultModel } from './weights.js';

const model = await loadDefaultModel();
await model?.dispose();

describe('goldens of real weights', () => {
  it.each(['real_whisper_base.json', 'tokenizer_whisper.json'])('%s', async (name) => {
    const fixture = await readGolden(fixturePath(name));
    const checkers = goldenCheckers.filter((checker) => checker.matches(fixture));
    expect(checkers.length).toBe(1);
    const results = await checkers[0].check(fixture, {});
    expect(results.length).toBeGreaterThanOrEqual(4);
    expect(results.filter(({ ok }) => !ok)).toEqual([]);
  });
});
