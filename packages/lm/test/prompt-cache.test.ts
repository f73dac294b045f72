/** What a model knows of earlier prompts: in memory and in files, flat and in windows, in every storage. */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, FileError, UsageError, type KvStorage } from '@mlx-runners/mlx-core';
import { LanguageModel } from '@mlx-runners/lm';
import { writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lm-prompt-cache-'));
afterAll(() => rmSync(scratch, { recursive: true }));

// Longer than the windows of the Gemma golden, which are of 4 tokens.
const prompt = Array.from({ length: 60 }, (_, i) => (i * 17 + 3) % 60);
const options = { temperature: 0, maxTokens: 12, ignoreStopIds: true };

const storages: readonly KvStorage[] = ['float32', 'float16', 'bfloat16', 'q8', 'q4'];

async function texts(model: LanguageModel, prompts: readonly (readonly number[])[]) {
  const results = [];
  for (const each of prompts) results.push(await model.generate(each, options).result());
  return results;
}

describe.each([
  ['tiny_llama3', storages.slice(0, 3)],
  ['tiny_gemma3', storages],
])('%s', (golden, fitting) => {
  const folder = writeTinyLanguageModel(join(scratch, golden), { golden });

  it.each(fitting)('goes on from %s as without knowing anything', async (storage) => {
    const edited = [...prompt.slice(0, 57), 9, 8, 7];
    const early = [...prompt.slice(0, 20), 1, 2, 3];
    const prompts = [prompt, prompt, edited, early, [...early, 4, 5]];
    await using model = await LanguageModel.load(folder, { kvCache: { storage } });
    const warm = await texts(model, prompts);
    const cold = [];
    for (const each of prompts) {
      await using fresh = await LanguageModel.load(folder, { kvCache: { storage } });
      cold.push(...(await texts(fresh, [each])));
    }
    expect(warm.map(({ text }) => text)).toEqual(cold.map(({ text }) => text));
    expect(warm[1].usage.cachedTokens).toBe(prompt.length - 1);
    expect(cold.map(({ usage }) => usage.cachedTokens)).toEqual([0, 0, 0, 0, 0]);
  });

  it.each(fitting)('saves %s and loads it again', async (storage) => {
    const file = join(scratch, `${golden}-${storage}.safetensors`);
    await using first = await LanguageModel.load(folder, { kvCache: { storage } });
    // One token, which isn't fed: windows don't go back behind what came after the prompt.
    await first.generate(prompt, { ...options, maxTokens: 1 }).result();
    await first.savePromptCache(file);
    const longer = [...prompt, 11, 12];
    const [expected] = await texts(first, [longer]);
    await using second = await LanguageModel.load(folder, { kvCache: { storage } });
    await second.loadPromptCache(file);
    const [loaded] = await texts(second, [longer]);
    expect(loaded.text).toBe(expected.text);
    expect(loaded.usage.cachedTokens).toBe(prompt.length);
  });
});

it('is refused in a storage that heads do not fit, when the model is loaded', async () => {
  const folder = join(scratch, 'tiny_llama3');
  await expect(LanguageModel.load(folder, { kvCache: { storage: 'q8' } })).rejects.toThrow(
    'have to be multiples of 32',
  );
});

describe('files', () => {
  const folder = join(scratch, 'tiny_llama3');
  const file = join(scratch, 'tiny_llama3-float32.safetensors');

  it('are refused where they are of another model or storage, or of none', async () => {
    const other = writeTinyLanguageModel(join(scratch, 'other'), { golden: 'tiny_qwen3' });
    await using model = await LanguageModel.load(other);
    await expect(model.loadPromptCache(file)).rejects.toThrow('of another model');
    await using packed = await LanguageModel.load(folder, { kvCache: { storage: 'float16' } });
    await expect(packed.loadPromptCache(file)).rejects.toThrow(CheckpointError);
    const weights = join(folder, 'model.safetensors');
    await expect(packed.loadPromptCache(weights)).rejects.toThrow('is no prompt cache');
    const text = join(scratch, 'text.safetensors');
    writeFileSync(text, 'This is a text, and no cache at all.');
    await expect(packed.loadPromptCache(text)).rejects.toThrow(CheckpointError);
    // Nothing of it has harmed the model.
    expect(await texts(packed, [prompt])).toHaveLength(1);
  });

  it('are written where folders are missing, which are made, and else refused', async () => {
    await using model = await LanguageModel.load(folder);
    await texts(model, [prompt]);
    const deep = join(scratch, 'new', 'folders', 'prompt.safetensors');
    await model.savePromptCache(deep);
    await model.loadPromptCache(deep);
    const [{ usage }] = await texts(model, [prompt]);
    expect(usage.cachedTokens).toBe(prompt.length - 1);
    await expect(model.savePromptCache(join(deep, 'below'))).rejects.toThrow(FileError);
    await expect(model.savePromptCache(scratch)).rejects.toThrow(FileError);
    // Nothing of it has harmed the model.
    expect((await texts(model, [prompt]))[0].usage.cachedTokens).toBe(prompt.length - 1);
  });

  it('need something to save', async () => {
    await using model = await LanguageModel.load(folder);
    await expect(model.savePromptCache(join(scratch, 'none'))).rejects.toThrow(UsageError);
    const before = join(scratch, 'before.safetensors');
    copyFileSync(file, before);
    await model.loadPromptCache(before);
    await model.savePromptCache(before);
    await model.loadPromptCache(before);
    const [{ usage }] = await texts(model, [prompt]);
    expect(usage.cachedTokens).toBe(prompt.length - 1);
  });
});
