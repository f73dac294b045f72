/** Prompts in, text out: the public API of @mlx-runners/llm. */
import { mx, quoted, UsageError } from '@mlx-runners/mlx-core';
import { resolveModel } from '@mlx-runners/hub';
import { familyOf, LanguageModel } from '@mlx-runners/lm';
import {
  checkOptions,
  languageModelLoadSchema,
  type LanguageModelLoadOptions,
} from '@mlx-runners/runner/library';
import { manifest } from './manifest.js';

export type LlmLoadOptions = LanguageModelLoadOptions;

/** The path of a model's files, fetched where they are not on this machine. */
export async function findLanguageModel(
  idOrPath: string,
  { signal, onProgress }: Pick<LlmLoadOptions, 'signal' | 'onProgress'> = {},
): Promise<string> {
  if (typeof idOrPath !== 'string' || idOrPath.trim() === '') {
    const given = quoted(idOrPath);
    throw new UsageError(`load() takes the id of a model or the path of its files, not ${given}.`);
  }
  const { models } = manifest;
  return await resolveModel(idOrPath, { models, checkConfig: checkFamily, signal, onProgress });
}

/** @throws CheckpointError for a config.json of no known family */
export function checkFamily(config: unknown): void {
  familyOf(config);
}

/**
 * Loads a model: an id of the Hugging Face hub, one of runner.json's short names, a GGUF file, or a folder with the
 * files of Hugging Face or mlx-lm, or with what `llm export` wrote.
 *
 * @throws HubError when the files can't be had, CheckpointError (for an export ProgramError) when they don't
 *   fit together, UsageError for options that make no sense, AbortedError when the signal fires
 */
export async function load(idOrPath: string, options: LlmLoadOptions = {}): Promise<LanguageModel> {
  const { device, onProgress, ...rest } = checkOptions('load()', languageModelLoadSchema, options);
  const path = await findLanguageModel(idOrPath, { signal: rest.signal, onProgress });
  if (device) mx.setDevice(device);
  return await LanguageModel.load(path, rest);
}
