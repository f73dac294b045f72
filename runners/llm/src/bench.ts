/** `llm bench`: writing and reading side by side with others. bench/README.md says what is compared. */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core';
import { precisions } from '@mlx-runners/runner/library';
import {
  benchTable,
  choice,
  downloadProgress,
  interruptSignal,
  machineDescription,
  nonEmpty,
  userModel,
  userPath,
  wholeNumber,
  writeBenchFile,
} from '@mlx-runners/runner';
import { Option, type Command } from 'commander';
import { contestantArguments } from './bench-contestant-command.js';
import {
  LoadedContestant,
  type BenchPrompts,
  type ContestantProgram,
} from './bench-contestants.js';
import {
  PEER_NAMES,
  PEERS,
  resultsFile,
  temporaryFolder,
  whyNoPeers,
  type PeerName,
} from './bench-peers.js';
import { benchPrompts } from './bench-prompts.js';
import {
  commonTokens,
  comparedRows,
  summary,
  takeTurns,
  type Goals,
  type Measured,
} from './bench-rows.js';
import { manifest } from './manifest.js';
import { findLanguageModel } from './pipeline.js';

/** Models with committed results; the goals hold for the first. */
const STANDARD_MODELS = [manifest.defaultModel, 'gemma-3-270m'];
const STANDARD_THREADS = 2;
/** So many tokens of a text have to be those of ours; rounding may part the texts afterwards. */
const LEAST_COMMON = 8;

interface BenchOptions {
  model: string;
  threads: number;
  runs: number;
  peers: PeerName | 'all' | 'none';
  out?: string;
  quiet?: boolean;
}

type Log = (line: string) => void;

export function addBenchCommand(program: Command): void {
  program
    .command('bench')
    .description('measure writing and reading side by side with others, on the CPU')
    .addOption(
      new Option('--model <id or path>', 'model to use, in a GGUF file')
        .default(manifest.defaultModel)
        .argParser((value) => userModel(nonEmpty('--model')(value))),
    )
    .option(
      '--threads <n>',
      'CPU threads of each side',
      wholeNumber('--threads', { min: 1, max: 1024 }),
      STANDARD_THREADS,
    )
    .option('--runs <n>', 'timed runs, behind one to warm up', wholeNumber('--runs', { min: 1 }), 3)
    .addOption(
      choice('--peers', 'what to compare with', ['all', ...PEER_NAMES, 'none']).default('all'),
    )
    .option(
      '--out <file>',
      'bench file to write; in the workspace, complete comparisons have their place',
      (value: string) => userPath(nonEmpty('--out')(value)),
    )
    .option('--quiet', 'show no progress')
    .action(bench);
}

async function bench(options: BenchOptions): Promise<void> {
  const log: Log = (line) => {
    if (!options.quiet) process.stderr.write(`${line}\n`);
  };
  const peers = wantedPeers(options, log);
  const gguf = await ggufFile(options);
  const prompts = benchPrompts(gguf);
  const { threads } = options;
  const programs = precisions.map((precision) => ours(gguf, precision, threads));
  using temporary = peers.length > 0 ? await temporaryFolder() : undefined;
  for (const name of peers) {
    const contextLength = 2 * prompts.long.length;
    const files = { gguf, threads, contextLength, temporary: temporary!.path };
    programs.push(await PEERS[name].prepare(files, log));
  }
  const measured = await measure(programs, prompts, options.runs, log);
  const [own, others] = [measured.slice(0, precisions.length), measured.slice(precisions.length)];

  const isStandard =
    STANDARD_MODELS.includes(options.model) && options.threads === STANDARD_THREADS;
  const hasGoals = isStandard && options.model === manifest.defaultModel;
  const subject = basename(gguf, '.gguf');
  const rows = others.flatMap((peer, i) => {
    const goals: Goals = hasGoals ? PEERS[peers[i]].goals : {};
    return own.flatMap((side) => comparedRows(side, peer, { subject, prompts, goals }));
  });
  process.stdout.write(measured.map(summary).join('') + agreement(measured, others));
  if (rows.length > 0) process.stdout.write(benchTable(rows));
  // Committed results are only ever replaced by a whole comparison.
  const isWhole = isStandard && peers.length === PEER_NAMES.length;
  const out = options.out ?? (isWhole ? resultsFile(options.model) : undefined);
  if (out !== undefined) {
    await writeBenchFile(out, { machine: machineDescription(), rows });
    log(`wrote ${out}`);
  }
}

function wantedPeers({ peers, out }: BenchOptions, log: Log): readonly PeerName[] {
  const missing = whyNoPeers();
  if (missing && peers !== 'none') log(`measuring mlx-runners alone: ${missing}`);
  const wanted = peers === 'all' ? PEER_NAMES : peers === 'none' ? [] : [peers];
  const found = missing ? [] : wanted;
  if (out !== undefined && found.length === 0) {
    throw new UsageError('--out needs a peer: a bench file says how two compare.');
  }
  return found;
}

/** The very file that all sides have their weights from. */
async function ggufFile({ model, quiet }: BenchOptions): Promise<string> {
  using progress = downloadProgress({ quiet });
  const path = await findLanguageModel(model, {
    signal: interruptSignal(),
    onProgress: progress.update,
  });
  const files = statSync(path).isDirectory()
    ? readdirSync(path).map((name) => join(path, name))
    : [path];
  const [gguf, ...more] = files.filter((file) => /\.gguf$/i.test(file));
  if (gguf !== undefined && more.length === 0) return gguf;
  throw new UsageError(
    `${path} is not one GGUF file, which the bench needs: all sides have their weights from it.`,
  );
}

function ours(
  gguf: string,
  precision: (typeof precisions)[number],
  threads: number,
): ContestantProgram {
  return {
    title: `mlx-runners ${precision}`,
    program: process.execPath,
    args: contestantArguments(gguf, precision, threads),
  };
}

/** Loads them all, lets each warm up, and measures them. */
async function measure(
  programs: readonly ContestantProgram[],
  prompts: BenchPrompts,
  runs: number,
  log: Log,
): Promise<Measured[]> {
  const contestants: LoadedContestant[] = [];
  try {
    for (const program of programs) {
      log(`loading and warming up ${program.title}`);
      const contestant = await LoadedContestant.start(program);
      contestants.push(contestant);
      await contestant.turn(prompts);
    }
    return await takeTurns(contestants, runs, prompts);
  } finally {
    for (const contestant of contestants) await contestant[Symbol.asyncDispose]();
  }
}

/**
 * How long each text is the first one's.
 *
 * @throws Error for a peer's that parts at once: it has not done the same work
 */
function agreement(
  [reference, ...others]: readonly Measured[],
  peers: readonly Measured[],
): string {
  const [{ ids: text }] = reference.turns;
  return others
    .map((other) => {
      const { name } = other.contestant;
      const common = Math.min(...other.turns.map(({ ids }) => commonTokens(text, ids)));
      if (common < LEAST_COMMON && peers.includes(other)) {
        throw new Error(
          `${name} parts from ${reference.contestant.name} after ${common} tokens, so their figures can't be compared.`,
        );
      }
      return `${name} writes the first ${common} of ${text.length} tokens of ${reference.contestant.name}\n`;
    })
    .join('');
}
