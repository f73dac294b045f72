import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { createInterface } from 'node:readline';
import { onInterrupt } from './interruption.js';

/** A program that reads and writes lines of JSON, such as a peer of a bench that stays loaded. */
export class LineProcess implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  readonly #closed: Promise<void>;
  readonly #forget: () => void;
  #stderr = '';

  /** @param env added to this process's environment */
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
