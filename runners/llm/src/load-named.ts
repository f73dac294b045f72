/** Loading for the commands of `llm`. */
import type { LanguageModel } from '@mlx-runners/lm';
import {
  loadAsGiven,
  withLanguageModelOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import type { Command } from 'commander';
import { manifest } from './manifest.js';
import { load } from './pipeline.js';

export function withLoadOptions<C extends Command>(command: C): C {
  return withLanguageModelOptions(command, manifest);
}

export async function loadNamed(options: LanguageModelOptions): Promise<LanguageModel> {
  return await loadAsGiven(load, options);
}
