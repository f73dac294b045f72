import type { Command } from 'commander';
import { CheckpointError, MlxRunnersError, printable } from '@mlx-runners/mlx-core/errors';
import { EXIT_FAILURE, printError } from './command-line.js';
import type { GoldenResult } from './golden-comparison.js';
import { readGolden, type GoldenFixture, type LoadTensors } from './golden-fixture.js';
import { userPath } from './user-path.js';

/** One way to compute what a golden holds. A runner lists all it has: eager, exported, a front end. */
export interface GoldenChecker<Options extends object = object> {
  /** By what the golden holds (its config, its tensors' names), never by the file's name. */
  matches(fixture: GoldenFixture): boolean;
  /** One result for each reference tensor. `options` are those the runner gave the command. */
  check(fixture: GoldenFixture, options: Options): Promise<GoldenResult[]>;
}

interface FileVerdict {
  readonly file: string;
  readonly ok: boolean;
  readonly results: readonly GoldenResult[];
  readonly error?: string;
}

/**
 * Adds `golden FILE…`: computes what each golden holds and prints, for every reference tensor, the
 * largest error relative to its range, or whether integers are equal. The exit code is 1 where one
 * leaves its tolerance, or a file can't be read or is none that this runner knows.
 *
 * @returns the command, for options of the runner's own, such as `--device`.
 */
export function addGoldenCommand<Options extends object>(
  program: Command,
  checkers: readonly GoldenChecker<Options>[],
  load?: LoadTensors,
): Command {
  return program
    .command('golden')
    .description('compare with reference outputs')
    .argument('<files...>', 'goldens: .safetensors or .json')
    .option('--json', 'print results as JSON, for programs')
    .action(async (files: string[], options: Options & { json?: boolean }) => {
      const verdicts: FileVerdict[] = [];
      for (const file of files) {
        const verdict = await checkFile(file, checkers, options, load);
        verdicts.push(verdict);
        if (!options.json) process.stdout.write(describeVerdict(verdict));
      }
      const failed = verdicts.filter(({ ok }) => !ok).length;
      if (options.json) {
        process.stdout.write(`${JSON.stringify({ ok: failed === 0, files: verdicts }, null, 2)}\n`);
      } else if (files.length > 1) {
        process.stdout.write(`${files.length - failed} of ${files.length} goldens ok\n`);
      }
      if (failed > 0) process.exitCode = EXIT_FAILURE;
    });
}

async function checkFile<Options extends object>(
  file: string,
  checkers: readonly GoldenChecker<Options>[],
  options: Options,
  load: LoadTensors | undefined,
): Promise<FileVerdict> {
  let fixture: GoldenFixture | undefined;
  try {
    fixture = await readGolden(userPath(file), load);
    const results = await runCheckers(fixture, checkers, options);
    return { file, ok: results.every(({ ok }) => ok), results };
  } catch (error) {
    // One bad file doesn't hide what the others give; a mistake in the program does.
    if (!(error instanceof MlxRunnersError)) throw error;
    printError(error);
    return { file, ok: false, results: [], error: error.message };
  } finally {
    if (fixture?.kind === 'tensors') {
      for (const tensor of fixture.tensors.values()) tensor.dispose();
    }
  }
}

async function runCheckers<Options extends object>(
  fixture: GoldenFixture,
  checkers: readonly GoldenChecker<Options>[],
  options: Options,
): Promise<GoldenResult[]> {
  const matching = checkers.filter((checker) => checker.matches(fixture));
  if (matching.length === 0) {
    throw new CheckpointError(`${fixture.path} is no golden of this runner: ${content(fixture)}`);
  }
  const results: GoldenResult[] = [];
  for (const checker of matching) results.push(...(await checker.check(fixture, options)));
  if (results.length === 0) {
    throw new CheckpointError(`${fixture.path} holds nothing to compare with: ${content(fixture)}`);
  }
  return results;
}

/** What was found in a golden, for an error. */
function content(fixture: GoldenFixture): string {
  if (fixture.kind === 'json') return 'a JSON file of another layout';
  const names = [...fixture.tensors.keys()].filter((name) => !name.startsWith('w.'));
  const modelType = JSON.stringify(fixture.metadata.config?.model_type) ?? 'none';
  const some = names.length > 5 ? [...names.slice(0, 5), `${names.length - 5} more`] : names;
  return `its model type is ${modelType}, its tensors are ${some.join(', ') || 'none'}`;
}

function describeVerdict({ file, ok, results, error }: FileVerdict): string {
  const width = Math.max(...results.map(({ tensor }) => tensor.length), 0);
  const lines = results.map(
    (result) =>
      `  ${result.ok ? 'ok  ' : 'FAIL'}  ${result.tensor.padEnd(width)}  ${describeResult(result)}`,
  );
  const passed = results.filter((result) => result.ok).length;
  const summary = error === undefined ? `${passed} of ${results.length} tensors` : 'not checked';
  return [printable(file, Infinity), ...lines, `  ${ok ? 'ok' : 'FAILED'}: ${summary}`, ''].join(
    '\n',
  );
}

function describeResult({ kind, maxError, tolerance, note }: GoldenResult): string {
  if (kind === 'integer') return note ?? (maxError === 0 ? 'equal' : `${maxError} differ`);
  const error = `${maxError.toExponential(1)} of the range (at most ${tolerance.toExponential(0)})`;
  if (note === undefined) return error;
  return Number.isFinite(maxError) ? `${error}; ${note}` : note;
}
