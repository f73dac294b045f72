/** Who is compared in the bench: processes that stay loaded. bench/README.md says what they are. */
import { z } from 'zod';
import { LineProcess } from '@mlx-runners/runner';

/** What a contestant is asked for. */
export interface BenchPrompts {
  /** A short one, for writing. */
  readonly short: readonly number[];
  /** For reading. */
  readonly long: readonly number[];
  /** Tokens that are written behind the short one. */
  readonly tokens: number;
}

/** What one turn gave. */
export interface Turn {
  /** Tokens a second, from the first token of the text to its last. */
  readonly decode: number;
  /** Tokens a second, until the first token behind the long prompt. */
  readonly prefill: number;
  /** Seconds until the first token behind the short prompt. */
  readonly firstToken: number;
  /** The text. */
  readonly ids: readonly number[];
  /** The most memory that the process held since it started. */
  readonly peakBytes: number;
}

export interface Contestant {
  readonly name: string;
  /** Seconds that loading took. */
  readonly loadSeconds: number;
  turn(prompts: BenchPrompts): Promise<Turn>;
}

const greeting = z.object({
  /** Of a peer. */
  version: z.string().optional(),
  runsOn: z.string(),
  loadSeconds: z.number().positive(),
});
const answer = z.object({
  ids: z.array(z.int()),
  firstSeconds: z.number().positive(),
  seconds: z.number().positive(),
  peakBytes: z.number().positive(),
});

/** What a contestant is told for one text. */
export const requestSchema = z.object({ ids: z.array(z.int()), maxTokens: z.int().positive() });

export type Greeting = z.infer<typeof greeting>;
export type Answer = z.infer<typeof answer>;

export interface ContestantProgram {
  readonly title: string;
  readonly program: string;
  readonly args: string[];
  readonly env?: Record<string, string | undefined>;
  /** Whether the process runs on what its title promises. */
  isRight?(runsOn: string): boolean;
}

/** A contestant that has loaded its model. */
export class LoadedContestant implements Contestant, AsyncDisposable {
  readonly name: string;
  readonly loadSeconds: number;
  readonly #process: LineProcess;

  private constructor(name: string, loadSeconds: number, process: LineProcess) {
    this.name = name;
    this.loadSeconds = loadSeconds;
    this.#process = process;
  }

  /** @throws Error when it can't be started, or does not run on what its title says */
  static async start(contestant: ContestantProgram): Promise<LoadedContestant> {
    const { title, program, args, env = {} } = contestant;
    const process = new LineProcess(program, args, env);
    try {
      const { version, runsOn, loadSeconds } = greeting.parse(await process.read());
      if (contestant.isRight?.(runsOn) === false) {
        throw new Error(`${title} runs on ${runsOn || 'nothing known'}.`);
      }
      const name = version === undefined ? title : `${title} ${version}`;
      return new LoadedContestant(name, loadSeconds, process);
    } catch (error) {
      await process[Symbol.asyncDispose]();
      throw error;
    }
  }

  async turn({ short, long, tokens }: BenchPrompts): Promise<Turn> {
    const written = await this.#generate(short, tokens);
    const read = await this.#generate(long, 1);
    return {
      decode: (tokens - 1) / (written.seconds - written.firstSeconds),
      prefill: long.length / read.firstSeconds,
      firstToken: written.firstSeconds,
      ids: written.ids,
      peakBytes: read.peakBytes,
    };
  }

  async #generate(ids: readonly number[], maxTokens: number): Promise<Answer> {
    this.#process.write(JSON.stringify({ ids, maxTokens }));
    const given = answer.parse(await this.#process.read());
    if (given.ids.length === maxTokens) return given;
    throw new Error(`${this.name} wrote ${given.ids.length} tokens instead of ${maxTokens}.`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}
