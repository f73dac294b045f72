/** What a model knows of a prompt, in a file: keys and values in their storage's form, and the tokens. */
import { CheckpointError, mx, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import type { DecoderModel, KvCacheOptions } from './decoder-model.js';
import type { Sequence } from './sequence.js';

const format = 'mlx-runners prompt cache 1';

/** The state's arrays are beside it. */
const tokensName = 'tokens';

/**
 * Writes a sequence's tokens and its cache, whole or not at all.
 *
 * @throws UsageError for a sequence without tokens, or whose cache is in the program's states; FileError
 */
export async function writePromptCache(
  path: string,
  sequence: Sequence,
  fingerprint: string,
): Promise<void> {
  const { cache, tokens } = sequence;
  if (!cache) throw new UsageError("This export's cache is in its graph, where it can't be saved.");
  if (tokens.length === 0) throw new UsageError('No prompt has been read that could be saved.');
  const ids = mx.array(Int32Array.from(tokens));
  const state = await cache.state();
  try {
    mx.saveSafetensors(path, new Map([...state, [tokensName, ids]]), { format, fingerprint });
  } finally {
    for (const array of [...state.values(), ids]) array.dispose();
  }
}

/**
 * A sequence with what `writePromptCache` wrote.
 *
 * @throws CheckpointError for a file that isn't one, or of another model or storage
 */
export async function readPromptCache(
  path: string,
  model: DecoderModel,
  options: KvCacheOptions,
): Promise<Sequence> {
  const { tensors, metadata } = mx.loadSafetensors(path);
  const sequence = model.sequence(options);
  try {
    if (metadata.format !== format) throw new CheckpointError(`${path} is no prompt cache.`);
    if (metadata.fingerprint !== model.fingerprint) {
      throw new CheckpointError(`${path} is the prompt cache of another model.`);
    }
    await sequence.restore(await tokensIn(path, tensors), tensors);
    return sequence;
  } catch (cause) {
    sequence.dispose();
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(`${path} doesn't fit: ${(cause as Error).message}`, { cause });
  } finally {
    for (const array of tensors.values()) array.dispose();
  }
}

/** Takes them out of the tensors. */
async function tokensIn(path: string, tensors: Map<string, MxArray>): Promise<number[]> {
  const ids = tensors.get(tokensName);
  tensors.delete(tokensName);
  if (ids?.dtype !== 'int32' || ids.ndim !== 1 || ids.size === 0) {
    throw new CheckpointError(`${path} has no tokens.`);
  }
  try {
    return Array.from(await ids.data(), Number);
  } finally {
    ids.dispose();
  }
}
