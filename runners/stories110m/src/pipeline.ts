/** Beginnings in, stories out: the public API of @mlx-runners/stories110m. */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { CheckpointError, mx, quoted, UsageError } from '@mlx-runners/mlx-core';
import { resolveModel } from '@mlx-runners/hub';
import { LanguageModel } from '@mlx-runners/lm';
import {
  checkOptions,
  languageModelLoadSchema,
  schemas,
  type LanguageModelLoadOptions,
} from '@mlx-runners/runner/library';
import { tokenizerFile } from '@mlx-runners/text';
import { manifest } from './manifest.js';

export interface StoriesLoadOptions extends LanguageModelLoadOptions {
  /** The path of a `tokenizer.model` or `tokenizer.bin`: what lies beside the weights, unless given. */
  tokenizer?: string;
}

const loadSchema = languageModelLoadSchema.extend({ tokenizer: schemas.nonEmpty().optional() });

/**
 * The path of a checkpoint, fetched where it is not on this machine.
 *
 * @throws HubError when it can't be had, CheckpointError when there is no tokenizer: neither `tokenizer` nor one
 *   beside it
 */
export async function findStories(
  idOrPath: string,
  {
    tokenizer,
    signal,
    onProgress,
  }: Pick<StoriesLoadOptions, 'tokenizer' | 'signal' | 'onProgress'> = {},
): Promise<string> {
  if (typeof idOrPath !== 'string' || idOrPath.trim() === '') {
    const given = quoted(idOrPath);
    throw new UsageError(`load() takes the id of a model or the path of its files, not ${given}.`);
  }
  // Before hundreds of megabytes are fetched for nothing.
  if (tokenizer !== undefined && !existsSync(tokenizer)) {
    throw new CheckpointError(`There is no tokenizer ${tokenizer}.`);
  }
  const { models } = manifest;
  const path = await resolveModel(idOrPath, { models, signal, onProgress });
  const folder = folderOf(path);
  if (tokenizerFile(tokenizer ?? folder) !== undefined) return path;
  throw new CheckpointError(
    `${tokenizer ?? folder} has no tokenizer, and the hub has none for it: name tokenizer.model of ` +
      'github.com/karpathy/llama2.c, or the tokenizer.bin made of it, or put it beside the checkpoint.',
  );
}

/** Where the tokenizer of a checkpoint lies. */
export function folderOf(path: string): string {
  return statSync(path).isDirectory() ? path : dirname(path);
}

/**
 * Loads stories110M or another model of llama2.c: `stories110m`, a `.pt` file or a folder with one, or a folder that
 * `stories110m export` wrote.
 *
 * @throws HubError when the files can't be had, CheckpointError (for an export ProgramError) when they don't
 *   fit together or a tokenizer is missing, UsageError for options that make no sense, AbortedError when the
 *   signal fires
 */
export async function load(
  idOrPath: string,
  options: StoriesLoadOptions = {},
): Promise<LanguageModel> {
  const { device, onProgress, ...rest } = checkOptions('load()', loadSchema, options);
  const { tokenizer, signal } = rest;
  const path = await findStories(idOrPath, { tokenizer, signal, onProgress });
  if (device) mx.setDevice(device);
  return await LanguageModel.load(path, rest);
}
