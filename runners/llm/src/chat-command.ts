/** `llm chat`: a conversation on the terminal, or a message a line from standard input. */
import { createInterface, type Interface } from 'node:readline';
import { AbortedError } from '@mlx-runners/mlx-core';
import { checkGenerationOptions, generateOptions } from '@mlx-runners/lm/command-line';
import {
  EXIT_INTERRUPTED,
  interruptSignal,
  withGenerationOptions,
  withLogOptions,
  type GenerationOptions,
  type LanguageModelOptions,
} from '@mlx-runners/runner';
import type { Command } from 'commander';
import { Chat } from './chat.js';
import { loadNamed, withLoadOptions } from './load-named.js';

interface Options extends LanguageModelOptions, GenerationOptions {
  readonly system?: string;
}

export function addChatCommand(program: Command): void {
  const command = program
    .command('chat')
    .description('talk to a model; /help shows what else can be typed')
    .option('--system <text>', 'what the model is told before the conversation');
  withLogOptions(withGenerationOptions(withLoadOptions(command))).action(run);
}

async function run(options: Options): Promise<void> {
  checkGenerationOptions(options);
  await using model = await loadNamed(options);
  const conversation = model.conversation({
    ...generateOptions(model, options),
    system: options.system,
  });
  const terminal = process.stdin.isTTY && process.stdout.isTTY;
  const lines = createInterface({
    input: process.stdin,
    output: terminal ? process.stderr : undefined,
    terminal,
    prompt: '> ',
  });
  if (terminal && !options.quiet) process.stderr.write('/help shows what can be typed\n');
  const wasEnded = await converse(new Chat(conversation, options), lines);
  // Where the prompt stands, the shell's would follow it.
  if (terminal && !wasEnded) process.stderr.write('\n');
}

/** @returns whether `/exit` ended it, rather than the end of input or an interrupt */
async function converse(chat: Chat, lines: Interface): Promise<boolean> {
  let answer: AbortController | undefined;
  let wasInterrupted = false;
  // On a terminal Ctrl+C comes here, elsewhere as a signal to the process.
  lines.on('SIGINT', () => {
    if (answer) answer.abort(new AbortedError('The answer was stopped.'));
    else if (wasInterrupted) {
      process.exitCode = EXIT_INTERRUPTED;
      lines.close();
    } else {
      wasInterrupted = true;
      clearLine(lines);
      process.stderr.write('\n(Ctrl+D or /exit ends)\n');
      lines.prompt();
    }
  });
  interruptSignal().addEventListener('abort', () => {
    answer?.abort(interruptSignal().reason);
    lines.close();
  });
  try {
    lines.prompt();
    for await (const line of lines) {
      wasInterrupted = false;
      const text = line.trim();
      if (text === '/exit') return true;
      answer = new AbortController();
      if (text !== '') await chat.take(text, answer.signal);
      answer = undefined;
      if (interruptSignal().aborted) break;
      lines.prompt();
    }
    return false;
  } finally {
    // An open one would keep the process alive.
    lines.close();
    process.stdin.destroy();
  }
}

function clearLine(lines: Interface): void {
  for (const name of ['e', 'u']) lines.write(null, { ctrl: true, name });
}
