/** Real weights for tests: the default model, from the cache or wherever it can be had. */
import { HubError } from '@mlx-runners/mlx-core/errors';
import { load, type WhisperModel } from '@mlx-runners/whisper';
import { beforeEach } from 'vitest';

/**
 * The default model. Where its files can't be had, the tests of the calling file are skipped and say
 * why.
 */
export async function loadDefaultModel(): Promise<WhisperModel | undefined> {
  try {
    return await load('whisper-base', { device: 'cpu' });
  } catch (error) {
    if (!(error instanceof HubError)) throw error;
    beforeEach(({ skip }) => skip(`no weights of whisper-base: ${error.message}`));
    return undefined;
  }
}
