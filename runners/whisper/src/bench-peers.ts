/** mlx-whisper beside us: its Python environment, and a process of it that stays loaded. */
import { execFile, spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { interruptSignal, onInterrupt, writeOutputFile } from '@mlx-runners/runner';
import { z } from 'zod';

const runner = fileURLToPath(new URL('..', import.meta.url));
const workspace = join(runner, '..', '..');
const peersFolder = join(runner, 'bench', 'peers');

/** What belongs to the workspace and is not published. */
export const workspaceFiles = {
  recording: join(workspace, 'packages', 'test-fixtures', 'speech', 'jfk.wav'),
  results: join(runner, 'bench', 'results', 'whisper.json'),
  /** The peers' environment, and weights while they are compared. */
  cache: join(workspace, '.cache', 'bench', 'whisper'),
  /** Our OpenBLAS under the names that libmlx looks for. */
  native: join(workspace, 'packages', 'mlx-core', 'build', 'native'),
};

/** Why no peer can be run here, if so. */
export function whyNoPeers(): string | undefined {
  if (!existsSync(peersFolder)) return 'the peers belong to the workspace of mlx-runners';
  if (process.platform !== 'linux') return 'the peers are compared on Linux, on the CPU';
  return undefined;
}

/** As in the wheel, on the reference BLAS; or on the OpenBLAS that we run on. */
export type Blas = 'reference' | 'openblas';

export interface TimedTranscript {
  text: string;
  /** Of the transcription alone. */
  seconds: number;
  /** The most memory that the process held since it started (VmHWM). */
  peakBytes: number;
}

const greeting = z.object({ version: z.string(), blas: z.string() });
const transcript = z.object({ text: z.string(), seconds: z.number(), peakBytes: z.number() });

export interface PeerOptions {
  blas: Blas;
  threads: number;
  language: string;
  /** mlx-whisper's weights.safetensors and config.json. */
  modelFolder: string;
  /** Mono float32 samples at 16 kHz. */
  samplesFile: string;
  log: (line: string) => void;
}

/** A process of mlx-whisper that has loaded its model. */
export class MlxWhisper implements AsyncDisposable {
  readonly name: string;
  readonly #process: LineProcess;

  private constructor(name: string, process: LineProcess) {
    this.name = name;
    this.#process = process;
  }

  /** @throws Error when it can't be installed or started, or computes on another BLAS than asked */
  static async start(options: PeerOptions): Promise<MlxWhisper> {
    const python = await pythonEnvironment(options.log);
    const script = join(peersFolder, 'mlx_whisper_peer.py');
    const { modelFolder, samplesFile, language, threads, blas } = options;
    const process = new LineProcess(python, [script, modelFolder, samplesFile, language], {
      OPENBLAS_NUM_THREADS: String(threads),
      OMP_NUM_THREADS: String(threads),
      LD_PRELOAD: blas === 'openblas' ? openblasLibraries().join(':') : undefined,
      HF_HUB_OFFLINE: '1',
      PYTHONNOUSERSITE: '1',
    });
    try {
      const hello = greeting.parse(await process.read());
      checkBlas(blas, hello.blas);
      const how = blas === 'openblas' ? 'with OpenBLAS' : 'as installed';
      return new MlxWhisper(`mlx-whisper ${hello.version} ${how}`, process);
    } catch (error) {
      await process[Symbol.asyncDispose]();
      throw error;
    }
  }

  async transcribe(): Promise<TimedTranscript> {
    this.#process.write('{}');
    return transcript.parse(await this.#process.read());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}

/** Libraries that carry the names of libmlx's BLAS and LAPACK and lead to OpenBLAS. */
function openblasLibraries(): string[] {
  const { native } = workspaceFiles;
  const names = existsSync(native) ? readdirSync(native) : [];
  const libraries = names.filter((name) => /^lib(blas|lapack)\b.*\.so/.test(name));
  if (libraries.length === 0) {
    throw new Error(
      `${native} has no libblas for mlx-whisper to run on: build it with "npx nx run mlx-core:build-native".`,
    );
  }
  return libraries.map((name) => join(native, name));
}

/** The dynamic linker only warns of what it can't preload, and then the figure would be another's. */
function checkBlas(wanted: Blas, loaded: string): void {
  const isOurs = loaded.startsWith(join(realpathSync(workspaceFiles.native), '/'));
  if (isOurs === (wanted === 'openblas')) return;
  throw new Error(
    `mlx-whisper should compute on ${wanted === 'openblas' ? 'our OpenBLAS' : 'its own BLAS'}, but it has loaded ${loaded || 'none'}.`,
  );
}

const execute = promisify(execFile);

/** The Python that has the peers' packages, installed when their list is new. */
async function pythonEnvironment(log: (line: string) => void): Promise<string> {
  const list = join(peersFolder, 'requirements.txt');
  const wanted = readFileSync(list, 'utf8');
  const folder = join(workspaceFiles.cache, 'python');
  const python = join(folder, 'bin', 'python');
  // Written last: without it, what is there is half an installation.
  const installed = join(folder, 'requirements.txt');
  if (existsSync(installed) && readFileSync(installed, 'utf8') === wanted) return python;
  log(`installing the peers into ${folder}`);
  await mkdir(workspaceFiles.cache, { recursive: true });
  await installStep('python3', ['-m', 'venv', '--clear', folder]);
  const pip = ['-m', 'pip', 'install', '--no-deps', '--only-binary', ':all:'];
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  await installStep(python, [...pip, ...quiet, '--requirement', list]);
  await writeOutputFile(installed, wanted);
  return python;
}

async function installStep(program: string, args: string[]): Promise<void> {
  try {
    await execute(program, args, { signal: interruptSignal() });
  } catch (error) {
    const { stderr, stdout, message } = error as Error & { stderr?: string; stdout?: string };
    const said = (stderr || stdout || message).trim().slice(-500);
    throw new Error(
      `mlx-whisper can't be installed (Python 3.11 or newer with venv and pip is needed): ${said}`,
      { cause: error },
    );
  }
}

/** A program that reads and writes lines of JSON. */
class LineProcess implements AsyncDisposable {
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
    throw new Error(`mlx-whisper ended without an answer: ${this.#stderr.trim().slice(-500)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#forget();
    this.#child.kill();
    await this.#closed;
  }
}
