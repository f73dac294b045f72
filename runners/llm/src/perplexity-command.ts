/** `llm perplexity`: how well a model predicts a text. */
import { readFile } from 'node:fs/promises';
import { FileError, systemReason } from '@mlx-runners/mlx-core';
import {
  interruptSignal,
  readPrompt,
  userPath,
  withLogOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import type { Command } from 'commander';
import { loadNamed, withLoadOptions } from './load-named.js';

export function addPerplexityCommand(program: Command): void {
  const command = program
    .command('perplexity')
    .description('tell how well a model predicts a text')
    .argument('<file>', 'a text file; - is standard input');
  withLogOptions(withLoadOptions(command)).action(run);
}

async function run(file: string, options: LanguageModelOptions): Promise<void> {
  const text = file === '-' ? await readPrompt(file) : await readText(userPath(file));
  await using model = await loadNamed(options);
  const started = performance.now();
  const { tokens, perplexity } = await model.perplexity(text, { signal: interruptSignal() });
  const seconds = (performance.now() - started) / 1000;
  const json = { perplexity, tokens, seconds };
  process.stdout.write(options.json ? `${JSON.stringify(json)}\n` : `${perplexity.toFixed(4)}\n`);
  if (options.quiet) return;
  process.stderr.write(
    `${tokens} tokens in ${seconds.toFixed(2)} s (${(tokens / seconds).toPrecision(3)}/s)\n`,
  );
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new FileError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
  }
}
