/** `llm bench`: writing and reading side by side with others. bench/README.md says what is compared. */
import { readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core';
import { precisions } from '@mlx-runners/runner/library';
import {
  benchLog,
  benchTable,
  downloadProgress,
  interruptSignal,
  machineDescription,
  wantedPeers,
  whyNoPeers,
  withBenchOptions,
  writeBenchFile,
  type BenchLog,
  type BenchOptions,
} from '@mlx-runners/runner';
import { commonLength } from '@mlx-runners/lm/command-line';
import type { Command } from 'commander';
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
  peersFolder,
  type PeerName,
} from './bench-peers.js';
import { benchPrompts } from './bench-prompts.js';
import { comparedRows, summary, takeTurns, type Goals, type Measured } from './bench-rows.js';
import { manifest } from './manifest.js';
import { findLanguageModel } from './pipeline.js';

/** Models with committed results; the goals hold for the first. */
const STANDARD_MODELS = [manifest.defaultModel, 'gemma-3-270m'];
const STANDARD_THREADS = 2;
/** So many tokens of a text have to be those of ours; rounding may part the texts afterwards. */
const LEAST_COMMON = 8;

type Options = BenchOptions<PeerName>;

export function addBenchCommand(program: Command): void {
  const command = program
    .command('bench')
    .description('measure writing and reading side by side with others, on the CPU');
  withBenchOptions(command, {
    model: manifest.defaultModel,
    modelHelp: 'model to use, in a GGUF file',
    threads: STANDARD_THREADS,
    peers: PEER_NAMES,
  }).action(bench);
}

async function bench(options: Options): Promise<void> {
  const log = benchLog(options);
  const peers = wantedPeers(options, PEER_NAMES, whyNoPeers(peersFolder), log);
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

/** The very file that all sides have their weights from. */
async function ggufFile({ model, quiet }: Options): Promise<string> {
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
  log: BenchLog,
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
      const common = Math.min(...other.turns.map(({ ids }) => commonLength(text, ids)));
      if (common < LEAST_COMMON && peers.includes(other)) {
        throw new Error(
          `${name} parts from ${reference.contestant.name} after ${common} tokens, so their figures can't be compared.`,
        );
      }
      return `${name} writes the first ${common} of ${text.length} tokens of ${reference.contestant.name}\n`;
    })
    .join('');
}
