/** Beginnings in, stories out: the public API of @mlx-runners/stories110m. */
import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CheckpointError, mx, quoted, UsageError } from '@mlx-runners/mlx-core';
import { resolveModel } from '@mlx-runners/hub';
import { LanguageModel } from '@mlx-runners/lm';
import {
  checkOptions,
  languageModelLoadSchema,
  type LanguageModelLoadOptions,
} from '@mlx-runners/runner/library';
import { manifest } from './manifest.js';

export type StoriesLoadOptions = LanguageModelLoadOptions;

const tokenizers = ['tokenizer.model', 'tokenizer.bin', 'tokenizer.json'];

/**
 * The path of a checkpoint with a tokenizer beside it; fetched where it is not on this machine.
 *
 * @throws HubError when it can't be had, CheckpointError when there is no tokenizer
 */
export async function findStories(
  idOrPath: string,
  { signal, onProgress }: Pick<StoriesLoadOptions, 'signal' | 'onProgress'> = {},
): Promise<string> {
  if (typeof idOrPath !== 'string' || idOrPath.trim() === '') {
    const given = quoted(idOrPath);
    throw new UsageError(`load() takes the id of a model or the path of its files, not ${given}.`);
  }
  const { models } = manifest;
  const path = await resolveModel(idOrPath, { models, signal, onProgress });
  const folder = folderOf(path);
  if (tokenizers.some((name) => existsSync(join(folder, name)))) return path;
  throw new CheckpointError(
    `${folder} has no tokenizer, and the hub has none for it: put tokenizer.model of ` +
      'github.com/karpathy/llama2.c, or the tokenizer.bin made of it, beside the checkpoint.',
  );
}

/** Where the tokenizer of a checkpoint lies. */
export function folderOf(path: string): string {
  return statSync(path).isDirectory() ? path : dirname(path);
}

/**
 * Loads stories110M or another model of llama2.c: `stories110m`, a `.pt` file or a folder with one and a tokenizer
 * beside it, or a folder that `stories110m export` wrote.
 *
 * @throws HubError when the files can't be had, CheckpointError (for an export ProgramError) when they don't
 *   fit together or a tokenizer is missing, UsageError for options that make no sense, AbortedError when the
 *   signal fires
 */
export async function load(
  idOrPath: string,
  options: StoriesLoadOptions = {},
): Promise<LanguageModel> {
  const checked = checkOptions('load()', languageModelLoadSchema, options);
  const { device, onProgress, ...rest } = checked;
  const path = await findStories(idOrPath, { signal: rest.signal, onProgress });
  if (device) mx.setDevice(device);
  return await LanguageModel.load(path, rest);
}
