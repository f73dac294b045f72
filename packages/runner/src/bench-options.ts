/** What the `bench` commands of runners have in common. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { Option, type Command } from 'commander';
import { nonEmpty, wholeNumber } from './option-values.js';
import { choice } from './shared-options.js';
import { userModel, userPath } from './user-path.js';

export interface BenchOptions<Peer extends string> {
  /** Id of a model, or absolute path of its folder or file. */
  readonly model: string;
  readonly threads: number;
  readonly runs: number;
  readonly peers: Peer | 'all' | 'none';
  /** Absolute path. */
  readonly out?: string;
  readonly quiet?: boolean;
}

export interface BenchDefaults {
  readonly model: string;
  /** What the model has to be. */
  readonly modelHelp?: string;
  readonly threads: number;
  readonly peers: readonly string[];
}

/** `--model`, `--threads`, `--runs`, `--peers`, `--out`, `--quiet`. */
export function withBenchOptions<C extends Command>(
  command: C,
  { model, modelHelp = 'model to use', threads, peers }: BenchDefaults,
): C {
  return command
    .addOption(
      new Option('--model <id or path>', modelHelp)
        .default(model)
        .argParser((value) => userModel(nonEmpty('--model')(value))),
    )
    .option(
      '--threads <n>',
      'CPU threads of each side',
      wholeNumber('--threads', { min: 1, max: 1024 }),
      threads,
    )
    .option('--runs <n>', 'timed runs, behind one to warm up', wholeNumber('--runs', { min: 1 }), 3)
    .addOption(choice('--peers', 'what to compare with', ['all', ...peers, 'none']).default('all'))
    .option(
      '--out <file>',
      'bench file to write; in the workspace, complete comparisons have their place',
      (value: string) => userPath(nonEmpty('--out')(value)),
    )
    .option('--quiet', 'show no progress');
}

export type BenchLog = (line: string) => void;

/** Lines to stderr, none with `--quiet`. */
export function benchLog({ quiet }: { quiet?: boolean }): BenchLog {
  return (line) => {
    if (!quiet) process.stderr.write(`${line}\n`);
  };
}

/**
 * The peers that are asked for, as far as any can be had.
 *
 * @param all the names of those that there are
 * @param missing why none can be run here, if so
 * @throws UsageError for `--out` where there is nothing to compare with
 */
export function wantedPeers<Peer extends string>(
  { peers, out }: Pick<BenchOptions<Peer>, 'peers' | 'out'>,
  all: readonly Peer[],
  missing: string | undefined,
  log: BenchLog,
): readonly Peer[] {
  if (missing !== undefined && peers !== 'none') log(`measuring mlx-runners alone: ${missing}`);
  const wanted = peers === 'all' ? all : peers === 'none' ? [] : [peers];
  const found = missing === undefined ? wanted : [];
  if (out !== undefined && found.length === 0) {
    throw new UsageError('--out needs a peer: a bench file says how two compare.');
  }
  return found;
}
