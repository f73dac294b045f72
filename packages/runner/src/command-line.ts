import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MlxRunnersError, printable, systemReason } from '@mlx-runners/mlx-core/errors';
import { Command, CommanderError } from 'commander';
import { handleInterrupts, runCleanups } from './interruption.js';

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
      .exitOverride()
      .configureOutput({ outputError: (message, write) => write(`${oneLine(message)}\n`) })
  );
}

/**
 * Runs a program and turns whatever happens into an exit code and at most one line on stderr. It
 * sets `process.exitCode` and leaves the process to end by itself, so that nothing is lost that is
 * still being written. An action that ends with a failure of its own sets `process.exitCode`.
 */
export async function runProgram(program: Command, argv = process.argv): Promise<number> {
  const interrupts = handleInterrupts();
  const verbose = argv.includes('--verbose') || Boolean(process.env.DEBUG);
  const crash = (error: unknown) => {
    runCleanups();
    process.exit(report(error, verbose));
  };
  process.on('uncaughtException', crash);
  watchOutput();
  let code: number;
  try {
    await program.parseAsync(argv);
    code = Number(process.exitCode ?? EXIT_OK);
  } catch (error) {
    // Interrupted work fails with some error or other: the user knows why.
    code = interrupts.exitCode() ?? report(error, verbose);
  }
  interrupts.finish();
  process.off('uncaughtException', crash);
  process.exitCode = interrupts.exitCode() ?? code;
  return process.exitCode;
}

/** Tells the user about an error, and returns the exit code that it deserves. */
function report(error: unknown, verbose: boolean): number {
  // commander has printed its own errors, and throws after help and version too.
  if (error instanceof CommanderError) {
    return error.exitCode === 0 ? EXIT_OK : EXIT_MISUSE;
  }
  printError(describe(error, verbose));
  if (verbose && error instanceof Error) process.stderr.write(`${stacks(error)}\n`);
  const isMisuse = error instanceof MlxRunnersError && error.code === 'USAGE';
  return isMisuse ? EXIT_MISUSE : EXIT_FAILURE;
}

function describe(error: unknown, verbose: boolean): string {
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof MlxRunnersError || verbose) return message;
  return `${message} (--verbose shows where it comes from)`;
}

/** The error's stack and those of its causes. */
function stacks(error: Error): string {
  const stack = error.stack ?? String(error);
  return error.cause instanceof Error ? `${stack}\ncaused by ${stacks(error.cause)}` : stack;
}

/** Tells the user of a failure, in one line, that does not end the program. */
export function printError(message: string): void {
  process.stderr.write(`error: ${oneLine(message)}\n`);
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
    printError(`standard output can't be written: ${systemReason(error)}.`);
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
