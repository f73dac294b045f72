import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  jsonMutations,
  type Reading,
} from '@mlx-runners/test-fixtures';
import { loadTokenizer } from '@mlx-runners/text';
import { afterAll, expect, test, vi } from 'vitest';
import { smallTokenizers } from './small-tokenizers.js';

const folder = mkdtempSync(join(tmpdir(), 'text-fuzz-'));
const path = join(folder, 'tokenizer.json');
afterAll(() => rmSync(folder, { recursive: true }));

const texts = [
  'The quick brown fox',
  '日本 👍🏽 naïve',
  ' \t\n',
  '',
  'a\ud800b',
  '½ ٣ 42',
  '<|end|>',
];

/** Loads, encodes and decodes, or refuses; ids are ids, texts are texts. */
async function read(file: Buffer): Promise<Reading> {
  writeFileSync(path, file);
  try {
    const tokenizer = await loadTokenizer(path);
    for (const text of texts) {
      for (const addSpecialTokens of [false, true]) {
        const ids = tokenizer.encode(text, { addSpecialTokens });
        expect(ids.every((id) => Number.isSafeInteger(id) && id >= 0)).toBe(true);
        expect(typeof tokenizer.decode(ids)).toBe('string');
      }
    }
    expect(typeof tokenizer.decode([0, 1, 2, 1e6])).toBe('string');
    return 'read';
  } catch (error) {
    expectRefusal(error, CheckpointError, path);
    return 'refused';
  }
}

test('damaged tokenizer.json files work or are refused', async () => {
  const warn = vi.spyOn(console, 'warn');
  const mutations = [...jsonMutations, ...jsonMutations, ...byteMutations];
  await fuzz({
    name: 'tokenizer',
    cases: 200,
    inputs: smallTokenizers.map(({ tokenizer }) => ({
      'tokenizer.json': Buffer.from(JSON.stringify(tokenizer)),
    })),
    mutationsOf: () => mutations,
    read: (files) => read(files['tokenizer.json']),
  });
  expect(warn).not.toHaveBeenCalled();
});
