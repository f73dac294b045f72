/** `llm batch`: many prompts at once. */
import { join } from 'node:path';
import { MlxRunnersError, printable, UsageError } from '@mlx-runners/mlx-core';
import { checkWritableFolder, writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import type { BatchEngine, GeneratedText, LanguageModel } from '@mlx-runners/lm';
import {
  checkGenerationOptions,
  generateOptions,
  rate,
  resultJson,
} from '@mlx-runners/lm/command-line';
import {
  EXIT_FAILURE,
  interruptSignal,
  nonEmpty,
  printError,
  userPath,
  wholeNumber,
  withGenerationOptions,
  type GenerationOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import { Option, type Command } from 'commander';
import { fileNames, readRequests, type BatchRequest } from './batch-requests.js';
import { promptOf } from './generate-command.js';
import { loadNamed, withLoadOptions } from './load-named.js';

interface Options extends LanguageModelOptions, GenerationOptions {
  readonly input?: string;
  readonly system?: string;
  readonly chatTemplate: boolean;
  readonly maxDecodeSequences: number;
  readonly outputDir?: string;
}

export function addBatchCommand(program: Command): void {
  const command = program
    .command('batch')
    .description('answer many prompts at once; a line of JSON for each, in their order')
    .argument('[prompts...]')
    .addOption(
      new Option(
        '--input <file>',
        'prompts: .jsonl with {"prompt"} or {"messages"} a line, else a text a line; - is standard input',
      ).argParser(nonEmpty('--input')),
    )
    .option('--system <text>', 'what the model is told before each prompt')
    .option('--no-chat-template', 'continue prompts as they are, though the model answers messages')
    .addOption(
      new Option('--max-decode-sequences <n>', 'how many are written at once')
        .default(32)
        .argParser(wholeNumber('--max-decode-sequences', { min: 1, max: 63 })),
    )
    .addOption(
      new Option('-o, --output-dir <folder>', 'write a .txt for each prompt there').argParser(
        (value) => userPath(nonEmpty('--output-dir')(value)),
      ),
    );
  withGenerationOptions(withLoadOptions(command)).option('--quiet', 'show no progress').action(run);
}

async function run(prompts: readonly string[], options: Options): Promise<void> {
  checkGenerationOptions(options);
  const requests = await readRequests(prompts, options.input);
  if (requests.length === 0) throw new UsageError('There are no prompts: give some, or --input.');
  const { outputDir } = options;
  const paths = outputDir && fileNames(requests).map((name) => join(outputDir, name));
  if (outputDir !== undefined) checkWritableFolder(outputDir);
  await using model = await loadNamed(options);
  await using engine = model.batch({ maxSequences: options.maxDecodeSequences });
  const started = performance.now();
  // All are under way before the first one is waited for.
  const results = requests.map((request) => answered(model, engine, request, options));
  let tokens = 0;
  for (const [i, result] of results.entries()) {
    const answer = await result;
    const id = requests[i].id ?? i;
    if (answer instanceof MlxRunnersError) {
      process.exitCode = EXIT_FAILURE;
      printError(answer, `prompt ${JSON.stringify(id)}`);
      const { code, message } = answer;
      if (!paths) print({ id, error: { code, message } });
      continue;
    }
    tokens += answer.usage.completionTokens;
    if (!paths) print({ id, ...resultJson(answer) });
    else await write(paths[i], answer, options);
  }
  if (options.quiet) return;
  const seconds = (performance.now() - started) / 1000;
  const speed = rate(tokens, seconds);
  const prompt = requests.length === 1 ? 'prompt' : 'prompts';
  process.stderr.write(
    `${requests.length} ${prompt}, ${tokens} tokens in ${seconds.toFixed(2)} s${speed}\n`,
  );
}

/** What is wrong with one prompt doesn't keep the others from being answered. */
async function answered(
  model: LanguageModel,
  engine: BatchEngine,
  { prompt, messages }: BatchRequest,
  options: Options,
): Promise<GeneratedText | MlxRunnersError> {
  try {
    const given = messages ?? promptOf(model, prompt!, options);
    const sampling = { ...generateOptions(model, options), signal: interruptSignal() };
    return await engine.generate(given, sampling).result();
  } catch (error) {
    const isOfPrompt = error instanceof MlxRunnersError && !interruptSignal().aborted;
    if (!isOfPrompt) throw error;
    return error;
  }
}

function print(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function write(path: string, { text }: GeneratedText, { quiet }: Options): Promise<void> {
  await writeWholeFile(path, `${text}\n`);
  if (!quiet) process.stderr.write(`wrote ${printable(path, Infinity)}\n`);
}
