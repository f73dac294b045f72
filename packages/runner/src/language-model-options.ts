/** `languageModelLoadSchema` as flags. */
import { kvStorages, mx, type KvStorage } from '@mlx-runners/mlx-core';
import { Option, type Command } from 'commander';
import { interruptSignal } from './interruption.js';
import {
  languageModelLoadSchema,
  precisions,
  type LanguageModelLoadOptions,
} from './language-model-schema.js';
import { wholeNumber } from './option-values.js';
import { optionsOf } from './options-of.js';
import { downloadProgress } from './progress.js';
import { choice, withModelOptions, type LogOptions, type ModelOptions } from './shared-options.js';

export interface LanguageModelOptions extends ModelOptions, LogOptions {
  readonly precision?: (typeof precisions)[number];
  readonly maxContextLen?: number;
  readonly kvStorage?: KvStorage;
  readonly kvInitialCapacity?: number;
}

/** The options of `withModelOptions`, `--precision`, `--max-context-len`, `--kv-storage`, `--kv-initial-capacity`. */
export function withLanguageModelOptions<C extends Command>(
  command: C,
  { defaultModel }: { defaultModel: string },
): C {
  return withModelOptions(command, { defaultModel })
    .addOption(precisionOption())
    .addOption(
      new Option(
        '--max-context-len <n>',
        'the most tokens of a sequence; what the model was made for unless given',
      ).argParser(wholeNumber('--max-context-len', { min: 1 })),
    )
    .addOption(
      choice('--kv-storage', 'how keys and values are stored; float32 unless given', kvStorages),
    )
    .addOption(
      new Option(
        '--kv-initial-capacity <n>',
        'tokens whose keys and values have room at first, which grows; 512 unless given',
      ).argParser(wholeNumber('--kv-initial-capacity')),
    );
}

export function precisionOption(): Option {
  return choice(
    '--precision',
    'fast rounds activations to 8 bits before packed matrices are multiplied; exact unless given',
    precisions,
  );
}

/** Calls a runner's `load` with what the user gave. */
export async function loadAsGiven<Model>(
  load: (idOrPath: string, options: LanguageModelLoadOptions) => Promise<Model>,
  options: LanguageModelOptions,
): Promise<Model> {
  if (options.threads !== undefined) mx.setThreads(options.threads);
  using progress = downloadProgress(options);
  return await load(options.model, {
    ...optionsOf(languageModelLoadSchema, options),
    maxContextLength: options.maxContextLen,
    kvCache: { storage: options.kvStorage, initialCapacity: options.kvInitialCapacity },
    signal: interruptSignal(),
    onProgress: progress.update,
  });
}
