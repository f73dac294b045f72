/**
 * Fuzzing: valid files are damaged in ways that a seed determines, and read. A failure names the
 * seed and the case, keeps the files, and is reduced to the damage that it needs.
 *
 * FUZZ_CASES is the number of cases of all packages together (BASE_CASES unless given), FUZZ_SEED
 * the seed (1), FUZZ_CASE a single case to run again.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Random } from '../random.js';
import type { Mutation } from './byte-mutations.js';
import { filesOpenedSince, openDescriptors, peakAddressSpace } from './resources.js';
import { startWatchdog } from './watchdog.js';

/** The files of one folder, by name. */
export type Files = Readonly<Record<string, Buffer>>;

/** What reading has come to; everything else that `read` throws is a failure. */
export type Reading = 'read' | 'refused';

export interface FuzzSubject {
  readonly name: string;
  /** Share of the BASE_CASES. */
  readonly cases: number;
  /** Valid inputs. */
  readonly inputs: readonly Files[];
  /** The damage that fits a file. */
  readonly mutationsOf: (file: string) => readonly Mutation[];
  /** Reads the files and judges what comes of it. */
  readonly read: (files: Files) => Reading | Promise<Reading>;
}

export interface FuzzSummary {
  readonly cases: number;
  readonly read: number;
  readonly refused: number;
}

/** Cases of all packages' ordinary tests together. */
const BASE_CASES = 2500;

/** Hardly a file of a test is larger than some kilobytes. */
const ALLOCATION_LIMIT = 512 * 2 ** 20;

/** What JavaScript may take for a byte of a file: lists that a mutation repeats make megabytes of JSON. */
const ALLOCATION_PER_BYTE = 64;

/** A damage that a case does to one of its files. */
interface Step {
  readonly file: string;
  readonly mutation: Mutation;
  readonly seed: number;
}

/**
 * Runs the subject's share of cases.
 *
 * @throws Error for an input that is refused undamaged, for the first case that fails (an exception
 *   out of `read`, a file left open, an allocation out of proportion), and where all cases are read,
 *   or all refused
 */
export async function fuzz(subject: FuzzSubject): Promise<FuzzSummary> {
  const seed = numberFrom('FUZZ_SEED') ?? 1;
  const only = numberFrom('FUZZ_CASE');
  const total = Math.ceil((subject.cases * (numberFrom('FUZZ_CASES') ?? BASE_CASES)) / BASE_CASES);
  for (const input of subject.inputs) {
    if ((await subject.read(input)) === 'refused') throw new Error('A valid input is refused.');
  }
  const run = (each: Files) => withinBounds(subject, each);
  const counts = { read: 0, refused: 0 };
  using watchdog = startWatchdog(`${subject.name}, FUZZ_SEED=${seed}`);
  const [first, end] = only === undefined ? [0, total] : [only, only + 1];
  for (let index = first; index < end; index++) {
    watchdog.at(index);
    const { input, steps } = caseOf(subject, seed, index);
    const files = damaged(input, steps);
    // A case that is run again may be one that crashes or hangs, and leaves no time to keep its files.
    if (only !== undefined) console.log(`Files of the case: ${kept(subject, seed, index, files)}`);
    try {
      counts[await run(files)]++;
    } catch (error) {
      const needed = await reduced(input, steps, run);
      const damage = needed.map(({ file, mutation }) => `${file}: ${mutation.kind}`).join('; ');
      const folder = kept(subject, seed, index, damaged(input, needed));
      const details = `${damage}; files in ${folder}`;
      throw new Error(`FUZZ_SEED=${seed} FUZZ_CASE=${index} fails (${details}). ${String(error)}`, {
        cause: error,
      });
    }
    // Lets vitest's worker answer its parent.
    if (index % 64 === 0) await setImmediate();
  }
  if (only === undefined && Math.min(counts.read, counts.refused) === 0) {
    throw new Error(
      `All of ${total} cases came to the same: the damage is too small or too large.`,
    );
  }
  const summary = { cases: end - first, ...counts };
  if (process.env.FUZZ_CASES) console.log(subject.name, `seed ${seed}`, summary);
  return summary;
}

/** Everything about a case follows from the seed and its number, so that it can be run alone. */
function caseOf({ inputs, mutationsOf }: FuzzSubject, seed: number, index: number) {
  const random = new Random(Math.imul(seed, 0x9e3779b1) + Math.imul(index, 0x85ebca6b));
  const input = random.pick(inputs);
  const steps = Array.from({ length: random.pick([1, 1, 1, 2, 3]) }, (): Step => {
    const file = random.pick(Object.keys(input));
    return { file, mutation: random.pick(mutationsOf(file)), seed: random.below(2 ** 32) };
  });
  return { input, steps };
}

function damaged(input: Files, steps: readonly Step[]): Files {
  const files = { ...input };
  for (const { file, mutation, seed } of steps) {
    files[file] = mutation.apply(files[file], new Random(seed));
  }
  return files;
}

async function withinBounds(subject: FuzzSubject, files: Files): Promise<Reading> {
  const descriptors = openDescriptors();
  const memory = peakAddressSpace() ?? 0;
  const reading = await subject.read(files);
  const left = filesOpenedSince(descriptors);
  if (left.length > 0) throw new Error(`These files are left open: ${left.join(', ')}.`);
  const taken = (peakAddressSpace() ?? 0) - memory;
  const size = Object.values(files).reduce((sum, { length }) => sum + length, 0);
  if (taken > ALLOCATION_LIMIT + ALLOCATION_PER_BYTE * size) {
    throw new Error(`${taken} bytes more were allocated at once.`);
  }
  return reading;
}

/** The steps without those that the failure, or another one, does not need. */
async function reduced(
  input: Files,
  steps: readonly Step[],
  run: (files: Files) => Promise<Reading>,
): Promise<readonly Step[]> {
  let needed = steps;
  for (const step of steps) {
    const fewer = needed.filter((each) => each !== step);
    const fails = await run(damaged(input, fewer)).then(
      () => false,
      () => true,
    );
    if (fails) needed = fewer;
  }
  return needed;
}

function kept({ name }: FuzzSubject, seed: number, index: number, files: Files): string {
  const folder = join(process.cwd(), 'reports', 'fuzz', `${name}-${seed}-${index}`);
  mkdirSync(folder, { recursive: true });
  for (const [file, bytes] of Object.entries(files)) writeFileSync(join(folder, file), bytes);
  return folder;
}

function numberFrom(variable: string): number | undefined {
  const text = process.env[variable];
  if (text === undefined || text === '') return undefined;
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) {
    throw new Error(`${variable} has to be a whole number, not ${text}.`);
  }
  return number;
}
