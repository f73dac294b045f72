/** `llm generate`: one prompt, one text. */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { CheckpointError, FileError, UsageError } from '@mlx-runners/mlx-core';
import {
  interruptSignal,
  nonEmpty,
  readPrompt,
  userPath,
  withGenerationOptions,
  withLogOptions,
  type GenerationOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import type { LanguageModel, Prompt } from '@mlx-runners/lm';
import { checkGenerationOptions, generateOptions, printText } from '@mlx-runners/lm/command-line';
import { Argument, Option, type Command } from 'commander';
import { loadNamed, withLoadOptions } from './load-named.js';

interface Options extends LanguageModelOptions, GenerationOptions {
  readonly prompt?: string;
  readonly system?: string;
  readonly chatTemplate: boolean;
  readonly logprobs?: boolean;
  readonly promptCache?: string;
}

const promptHelp = 'what the model answers or continues; - reads it from standard input';

export function addGenerateCommand(program: Command): void {
  const command = program
    .command('generate')
    .description('answer or continue one prompt')
    .addArgument(new Argument('[prompt]', promptHelp).argParser(nonEmpty('The prompt')))
    .addOption(
      new Option('-p, --prompt <text>', 'the same, as an option').argParser(nonEmpty('--prompt')),
    )
    .option('--system <text>', 'what the model is told before the prompt')
    .option(
      '--no-chat-template',
      'continue the prompt as it is, though the model answers messages',
    );
  command.addOption(
    new Option(
      '--prompt-cache <file>',
      'remember the prompt and its answer in this file, so that a run whose prompt begins alike reads only the rest',
    ).argParser((value) => userPath(nonEmpty('--prompt-cache')(value))),
  );
  withLogOptions(withGenerationOptions(withLoadOptions(command)))
    .option('--logprobs', 'with --json, the log-probability of each token')
    .action(run);
}

async function run(argument: string | undefined, options: Options): Promise<void> {
  checkGenerationOptions(options);
  const { promptCache, logprobs } = options;
  if (logprobs && !options.json) throw new UsageError('--logprobs goes with --json.');
  if (promptCache !== undefined) checkFolderOf(promptCache);
  const text = await readPrompt(givenPrompt(argument, options.prompt));
  await using model = await loadNamed(options);
  if (promptCache !== undefined && existsSync(promptCache)) await loadCache(model, promptCache);
  const stream = model.generate(promptOf(model, text, options), {
    ...generateOptions(model, options),
    logprobs,
    signal: interruptSignal(),
  });
  await printText(stream, options);
  if (promptCache !== undefined) await model.savePromptCache(promptCache);
}

function givenPrompt(argument: string | undefined, option: string | undefined): string {
  if (argument !== undefined && option !== undefined) {
    throw new UsageError('There are two prompts: give one, as an argument or with --prompt.');
  }
  const prompt = argument ?? option;
  if (prompt !== undefined) return prompt;
  throw new UsageError('There is no prompt: llm generate "Why is the sky blue?", or - to read it.');
}

/** Before any work: a typing mistake would else make folders, or be found after the answer. */
function checkFolderOf(file: string): void {
  const folder = dirname(file);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return;
  throw new FileError(`--prompt-cache is to be in ${folder}, which is no folder.`);
}

async function loadCache(model: LanguageModel, file: string): Promise<void> {
  try {
    await model.loadPromptCache(file);
  } catch (cause) {
    if (!(cause instanceof CheckpointError)) throw cause;
    const remedy = 'Remove it, or give --prompt-cache another name.';
    throw new CheckpointError(`${cause.message} ${remedy}`, { cause });
  }
}

/** As messages, for models that answer them. */
export function promptOf(
  model: LanguageModel,
  text: string,
  { system, chatTemplate }: Pick<Options, 'system' | 'chatTemplate'>,
): Prompt {
  if (model.chatTemplate && chatTemplate) {
    const user = { role: 'user', content: text };
    return system === undefined ? [user] : [{ role: 'system', content: system }, user];
  }
  if (system === undefined) return text;
  const why = chatTemplate
    ? 'this model has no chat template'
    : 'there is none with --no-chat-template';
  throw new UsageError(`--system is a message for the chat template, and ${why}.`);
}
