/** Real weights for tests, from the cache or wherever they can be had. */
import { HubError } from '@mlx-runners/mlx-core/errors';
import { load, type LanguageModel, type LlmLoadOptions } from '@mlx-runners/llm';
import { beforeEach } from 'vitest';

/** Where a model's files can't be had, the tests of the calling suite are skipped and say why. */
export async function loadOrSkip(
  id: string,
  options: LlmLoadOptions = {},
): Promise<LanguageModel | undefined> {
  try {
    return await load(id, { device: 'cpu', ...options });
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    beforeEach(({ skip }) => skip(`no weights of ${id}: ${error.message}`));
    return undefined;
  }
}
