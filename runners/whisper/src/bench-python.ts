/** The Python side of the bench: an environment with the peers' packages, and processes in it. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { interruptSignal, onInterrupt } from '@mlx-runners/runner';

const execute = promisify(execFile);

/**
 * The Python in `folder` that has the packages of a requirements file, installed when their list is
 * new.
 */
export async function pythonWith(
  requirements: string,
  folder: string,
  log: (line: string) => void,
): Promise<string> {
  const wanted = readFileSync(requirements, 'utf8');
  const python = join(folder, 'bin', 'python');
  // Written last: without it, what is there is half an installation.
  const installed = join(folder, 'requirements.txt');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === wanted) return python;
  log(`installing the peers into ${folder}`);
  await mkdir(dirname(folder), { recursive: true });
  await installStep('python3', ['-m', 'venv', '--clear', folder]);
  const pip = ['-m', 'pip', 'install', '--no-deps', '--only-binary', ':all:'];
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  await installStep(python, [...pip, ...quiet, '--requirement', requirements]);
  await writeWholeFile(installed, wanted);
  return python;
}

async function installStep(program: string, args: string[]): Promise<void> {
  try {
    await execute(program, args, { signal: interruptSignal() });
  } catch (error) {
    const { stderr, stdout, message } = error as Error & { stderr?: string; stdout?: string };
    const said = (stderr || stdout || message).trim().slice(-500);
    throw new Error(
      `The peers can't be installed (Python 3.11 or newer with venv and pip is needed): ${said}`,
      { cause: error },
    );
  }
}

/** A program that reads and writes lines of JSON. */
export class LineProcess implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly #closed: Promise<void>;
  readonly #forget: () => void;
  #stderr = '';

  constructor(program: string, args: string[], env: Record<string, string | undefined>) {
    this.#child = spawn(program, args, { env: { ...process.env, ...env } });
    this.#forget = onInterrupt(() => this.#child.kill());
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text));
    this.#child.on('error', (error) => (this.#stderr += error.message));
    // A program that has ended is noticed by its missing answer, which tells more.
    this.#child.stdin.on('error', () => undefined);
    this.#closed = new Promise((resolve) => this.#child.once('close', () => resolve()));
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  write(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  /** The next answer. @throws Error with the end of what it wrote to stderr, when it ends instead */
  async read(): Promise<unknown> {
    const line = await this.#lines.next();
    if (!line.done) return JSON.parse(line.value) as unknown;
    await this.#closed;
    throw new Error(`The peer ended without an answer: ${this.#stderr.trim().slice(-500)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#forget();
    this.#child.kill();
    await this.#closed;
  }
}
