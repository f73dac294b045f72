import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  FileError,
  MlxRunnersError,
  NativeError,
  printable,
  systemReason,
} from '@mlx-runners/mlx-core/errors';
import { Command, CommanderError } from 'commander';
import { handleInterrupts, runCleanups } from './interruption.js';
import { userPath } from './user-path.js';

/** Exit codes of every runner; an interrupt adds 128 plus the signal's number. */
export const EXIT_OK = 0;
export const EXIT_FAILURE = 1;
export const EXIT_MISUSE = 2;

/** Gives every command, at any depth, what all have in common. */
class RunnerCommand extends Command {
  constructor(name?: string) {
    super(name);
    this.option('--verbose', 'show where errors come from');
  }

  override createCommand(name?: string): Command {
    return new RunnerCommand(name);
  }
}

/**
 * A runner's program, to which it adds options, an action and commands; `runProgram` runs it.
 *
 * @param moduleUrl `import.meta.url` of the caller: version and description are those of the
 *   package.json nearest above it.
 */
export function createProgram(name: string, moduleUrl: string): Command {
  const { version, description } = readPackage(moduleUrl);
  return (
    new RunnerCommand(name)
      .description(description)
      .version(version, '-V, --version', 'show the version')
      .helpOption('-h, --help', 'show this help')
      // Else the program's own options would swallow those of its commands that share a name.
      .enablePositionalOptions()
      .helpCommand('help [command]', 'show help of a command')
      .exitOverride()
      .configureOutput({
        outputError: (message, write) => write(`${oneLine(message + dashHint(message))}\n`),
      })
  );
}

/** For a file that was taken for an option. */
function dashHint(message: string): string {
  const name = /unknown option '(-[^']*)'/.exec(message)?.[1];
  return name !== undefined && existsSync(userPath(name)) ? ` (the file is ./${name})` : '';
}

let verbose = false;

/**
 * Runs a program and turns whatever happens into an exit code and at most one line on stderr. It
 * sets `process.exitCode` and leaves the process to end by itself, so that nothing is lost that is
 * still being written. An action that ends with a failure of its own sets `process.exitCode`.
 */
export async function runProgram(program: Command, argv = process.argv): Promise<number> {
  const interrupts = handleInterrupts();
  verbose = argv.includes('--verbose') || Boolean(process.env.DEBUG);
  const crash = (error: unknown) => {
    runCleanups();
    process.exit(report(error));
  };
  process.on('uncaughtException', crash);
  watchOutput();
  let code: number;
  try {
    await program.parseAsync(argv);
    code = Number(process.exitCode ?? EXIT_OK);
  } catch (error) {
    // Interrupted work fails with some error or other: the user knows why.
    code = interrupts.exitCode() ?? report(error);
  }
  interrupts.finish();
  process.off('uncaughtException', crash);
  process.exitCode = interrupts.exitCode() ?? code;
  return process.exitCode;
}

/** Tells the user about an error, and returns the exit code that it deserves. */
function report(error: unknown): number {
  // commander has printed its own errors, and throws after help and version too.
  if (error instanceof CommanderError) {
    return error.exitCode === 0 ? EXIT_OK : EXIT_MISUSE;
  }
  printError(error);
  const isMisuse = error instanceof MlxRunnersError && error.code === 'USAGE';
  return isMisuse ? EXIT_MISUSE : EXIT_FAILURE;
}

function describe(error: unknown): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  // What can't be loaded, each place tried and each remedy: a list, which one line would hide.
  if (error instanceof NativeError) {
    return message
      .split('\n')
      .map((line) => printable(line, Infinity))
      .join('\n');
  }
  if (error instanceof MlxRunnersError || verbose) return oneLine(message);
  return oneLine(`${message} (--verbose shows where it comes from)`);
}

/** The error's stack and those of its causes. */
function stacks(error: Error): string {
  const stack = error.stack ?? String(error);
  return error.cause instanceof Error ? `${stack}\ncaused by ${stacks(error.cause)}` : stack;
}

/**
 * Tells the user of a failure that does not end the program, in one line; with `--verbose` also
 * where it comes from.
 *
 * @param about which of several things has failed
 */
export function printError(error: unknown, about?: string): void {
  const of = about === undefined ? '' : `${oneLine(about)}: `;
  process.stderr.write(`error: ${of}${describe(error)}\n`);
  if (verbose && error instanceof Error) process.stderr.write(`${stacks(error)}\n`);
}

/** Tells the user, in one line, of something that will work worse than expected. */
export function printWarning(message: string): void {
  process.stderr.write(`warning: ${oneLine(message)}\n`);
}

function oneLine(text: string): string {
  return printable(text.trim().replace(/\s*\n\s*/g, ' '), Infinity);
}

let outputWatched = false;

/** Ends the program when nobody can get its results any more. */
function watchOutput(): void {
  if (outputWatched) return;
  outputWatched = true;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    runCleanups();
    // `… | head -1` closes the pipe early: nobody is listening any more, which is no error.
    if (error.code === 'EPIPE') process.exit(process.exitCode ?? EXIT_OK);
    printError(new FileError(`standard output can't be written: ${systemReason(error)}.`));
    process.exit(EXIT_FAILURE);
  });
  // There is nowhere left to tell of it; results still have their place.
  process.stderr.on('error', () => undefined);
}

function readPackage(moduleUrl: string): { version: string; description: string } {
  let folder = dirname(fileURLToPath(moduleUrl));
  while (!existsSync(join(folder, 'package.json'))) {
    if (folder === dirname(folder)) throw new Error(`No package.json above ${moduleUrl}`);
    folder = dirname(folder);
  }
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
    description: string;
  };
}
