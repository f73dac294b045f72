import { spawn } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { UsageError } from '@mlx-runners/mlx-core/errors';

/** A function to measure: by the number it gives, else by the seconds it takes. */
export interface MeasuredFunction {
  readonly name: string;
  run(): unknown;
}

/** A program to measure: by the figure that `parse` finds in its output, else by its seconds. */
export interface MeasuredProgram {
  readonly name: string;
  readonly command: readonly [program: string, ...args: string[]];
  readonly cwd?: string;
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  parse?(stdout: string): number;
}

export type Contestant = MeasuredFunction | MeasuredProgram;

export interface Measurement {
  readonly median: number;
  /** One figure a run, in the order in which they were taken. */
  readonly figures: readonly number[];
}

/**
 * Measures contestants in turns (A B A B …), so that what the machine does meanwhile falls on all
 * alike, and gives the median of each by name.
 *
 * @throws UsageError for no runs and for equal names; Error where a program fails, with the end of
 *   what it wrote to stderr.
 */
export async function measureInTurns(
  contestants: readonly Contestant[],
  runs: number,
): Promise<Map<string, Measurement>> {
  if (!(Number.isInteger(runs) && runs > 0)) {
    throw new UsageError(`The number of runs must be a whole number of at least 1; got ${runs}.`);
  }
  const figures = new Map<string, number[]>(contestants.map(({ name }) => [name, []]));
  if (figures.size !== contestants.length) {
    throw new UsageError('Each contestant needs a name of its own.');
  }
  for (let run = 0; run < runs; run++) {
    for (const contestant of contestants) {
      figures.get(contestant.name)!.push(await measure(contestant));
    }
  }
  return new Map(
    [...figures].map(([name, taken]) => [name, { median: median(taken), figures: taken }]),
  );
}

/** @throws UsageError for no values. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new UsageError('The median of no values.');
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

async function measure(contestant: Contestant): Promise<number> {
  const started = performance.now();
  const given: unknown =
    'command' in contestant ? await runOnce(contestant) : await contestant.run();
  const seconds = (performance.now() - started) / 1000;
  const figure = 'command' in contestant ? contestant.parse?.(String(given)) : given;
  if (typeof figure !== 'number') return seconds;
  if (!Number.isFinite(figure)) {
    throw new Error(`${contestant.name} gave ${figure}, which is no figure`);
  }
  return figure;
}

/** Runs a program to its end and gives its output. */
function runOnce({ name, command, cwd, env }: MeasuredProgram): Promise<string> {
  const [program, ...args] = command;
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', (cause) => reject(new Error(`${name} could not be started`, { cause })));
    child.on('close', (code, signal) => {
      if (code === 0) {
        resolve(stdout);
        return;
      }
      const end = stderr.trim().slice(-500);
      reject(new Error(`${name} failed with ${signal ?? `exit code ${code}`}: ${end}`));
    });
  });
}
