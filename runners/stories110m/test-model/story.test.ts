/** The real model: its weights from the hub or the cache, with llama2.c's tokenizer beside them. */
import { CheckpointError, HubError } from '@mlx-runners/mlx-core/errors';
import { load, type LanguageModel } from '@mlx-runners/stories110m';
import { afterAll, beforeEach, expect, it } from 'vitest';

async function loadStories(): Promise<LanguageModel | undefined> {
  try {
    return await load('stories110m', { device: 'cpu' });
  } catch (error) {
    const isOutOfReach =
      error instanceof HubError ||
      (error instanceof CheckpointError && error.message.includes('has no tokenizer'));
    if (!isOutOfReach) throw error;
    beforeEach(({ skip }) => skip(`no stories110M: ${error.message}`));
    return undefined;
  }
}

const model = await loadStories();
afterAll(() => model?.dispose());

it('tells a story', async () => {
  const prompt = 'Once upon a time,';
  const { text } = await model!.generate(prompt, { temperature: 0, maxTokens: 50 }).result();
  expect(text).toMatch(/^ there was a /);
});
