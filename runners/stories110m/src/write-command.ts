/** `stories110m`: a story from its beginning. */
import { UsageError } from '@mlx-runners/mlx-core';
import type { LanguageModel } from '@mlx-runners/lm';
import { checkGenerationOptions, generateOptions, printText } from '@mlx-runners/lm/command-line';
import {
  interruptSignal,
  loadAsGiven,
  nonEmpty,
  readPrompt,
  userPath,
  wholeNumber,
  withGenerationOptions,
  withLanguageModelOptions,
  withLogOptions,
  type GenerationOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import { Option, type Command } from 'commander';
import { manifest } from './manifest.js';
import { load } from './pipeline.js';

interface Options extends LanguageModelOptions, GenerationOptions {
  readonly prompt: string;
  readonly seqLen?: number;
  readonly tokenizer?: string;
}

/** `--tokenizer`. */
export function withTokenizerOption<C extends Command>(command: C): C {
  return command.addOption(
    new Option(
      '--tokenizer <file>',
      'tokenizer.model or tokenizer.bin; what lies beside the weights unless given',
    ).argParser((value) => userPath(nonEmpty('--tokenizer')(value))),
  );
}

/** The program's own options and action. */
export function writesStories(program: Command): void {
  program
    .addOption(
      new Option('-p, --prompt <text>', 'how the story begins; - reads it from standard input')
        .default('Once upon a time,')
        .argParser(nonEmpty('--prompt')),
    )
    .addOption(
      new Option(
        '--seq-len <n>',
        'the most tokens of the beginning and what is written, together',
      ).argParser(wholeNumber('--seq-len', { min: 1 })),
    );
  const loading = withTokenizerOption(withLanguageModelOptions(program, manifest));
  withLogOptions(withGenerationOptions(loading)).action(run);
}

async function run(options: Options): Promise<void> {
  checkGenerationOptions(options);
  const prompt = await readPrompt(options.prompt);
  const { tokenizer } = options;
  await using model = await loadAsGiven((id, rest) => load(id, { ...rest, tokenizer }), options);
  const stream = model.generate(prompt, {
    ...generateOptions(model, options),
    maxTokens: mostTokens(model, prompt, options),
    signal: interruptSignal(),
  });
  if (!options.json) process.stdout.write(prompt);
  await printText(stream, options);
}

/** @throws UsageError for a beginning that is as long as the whole may be */
function mostTokens(
  model: LanguageModel,
  prompt: string,
  { seqLen, maxTokens }: Options,
): number | undefined {
  if (seqLen === undefined) return maxTokens;
  const { length } = model.encode(prompt);
  if (length < seqLen) return Math.min(seqLen - length, maxTokens ?? Infinity);
  throw new UsageError(
    `The beginning has ${length} tokens: --seq-len ${seqLen} leaves no room for a story.`,
  );
}
