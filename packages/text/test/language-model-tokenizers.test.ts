import { mx } from '@mlx-runners/mlx-core';
import { HubError } from '@mlx-runners/mlx-core/errors';
import { modelSourcesSchema, resolveModel } from '@mlx-runners/hub';
import { readJsonFixture } from '@mlx-runners/test-fixtures';
import { ggufChatTemplate, IncrementalDecoder, Tokenizer } from '@mlx-runners/text';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';

const runnerJson = new URL('../../../runners/llm/runner.json', import.meta.url);

afterEach(() => vi.unstubAllEnvs());

/** What their chat templates make of "hi"; Gemma's file is of a base model. */
const PROMPTS = {
  smollm2:
    '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' +
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
  'gemma3-270m': undefined,
};

describe('the tokenizers of real GGUF files', () => {
  it.for([
    ['smollm2', 'tokenizer_smollm2.json', 49_152],
    ['gemma3-270m', 'tokenizer_gemma3.json', 262_144],
  ] as const)(
    "%s gives the reference's ids and texts",
    { timeout: 600_000 },
    async ([name, fixture, size], context) => {
      const runner = JSON.parse(await readFile(runnerJson, 'utf8')) as { models: unknown };
      const models = modelSourcesSchema.parse(runner.models);
      vi.stubEnv('MLX_RUNNERS_SOURCE', 'mirror');
      vi.stubEnv('PIP_RETRIES', '0');
      const folder = await resolveModel(name, { models }).catch((error: unknown) => {
        if (!(error instanceof HubError)) throw error;
        console.warn(`SKIPPED: ${name} can't be had: ${error.message}`);
        return context.skip(error.message);
      });
      const file = (await readdir(folder)).find((entry) => entry.endsWith('.gguf'))!;
      const { metadata } = mx.loadGguf(join(folder, file), () => false);
      const tokenizer = Tokenizer.fromGguf(metadata, file);
      expect(tokenizer.vocabSize).toBe(size);
      const messages = [{ role: 'user', content: 'hi' }];
      const template = ggufChatTemplate(metadata, file);
      expect(template?.apply(messages, { addGenerationPrompt: true })).toBe(PROMPTS[name]);
      const { cases } = readJsonFixture(fixture);
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
});
