import { UsageError } from '@mlx-runners/mlx-core/errors';
import { checkWritableFolder } from '@mlx-runners/mlx-core/whole-file';
import type { LogOptions, OutputOptions } from './shared-options.js';

/** What a command makes of its inputs, and where to. */
export interface OutputPlan<Format extends string> {
  readonly formats: readonly Format[];
  /** undefined: stdout. */
  readonly outputDir: string | undefined;
  /** Whether each result is a line of JSON on stdout as well. */
  readonly json: boolean;
}

/**
 * Settles what goes where, before any work. Without a folder, results share stdout, so there only
 * the default format can stand for several inputs.
 *
 * @param allFormats the default first
 * @param baseNames the names of the files to write, without extension, one for each input
 * @throws UsageError for flags that contradict each other and for inputs that would be written to
 *   one file; FileError where the folder can't be written to
 */
export function planOutput<Format extends string>(
  { outputDir, outputFormat, json = false }: OutputOptions<Format | 'all'> & LogOptions,
  allFormats: readonly Format[],
  baseNames: readonly string[],
): OutputPlan<Format> {
  const [defaultFormat] = allFormats;
  const format = outputFormat ?? defaultFormat;
  if (outputDir !== undefined) {
    checkDistinct(baseNames);
    checkWritableFolder(outputDir);
  } else if (json && outputFormat !== undefined) {
    throw new UsageError(
      `--json and --output-format ${format} both say what goes to stdout: leave one out, or give --output-dir.`,
    );
  } else if (format === 'all' || (format !== defaultFormat && baseNames.length > 1)) {
    const what = format === 'all' ? 'All formats' : `${format} of several inputs`;
    throw new UsageError(`${what} can't share stdout: give --output-dir.`);
  }
  return { formats: format === 'all' ? allFormats : [format], outputDir, json };
}

function checkDistinct(baseNames: readonly string[]): void {
  const twice = baseNames.find((name, i) => baseNames.indexOf(name) !== i);
  if (twice === undefined) return;
  throw new UsageError(
    `Two inputs would be written as ${twice}: give them to separate runs, or rename one.`,
  );
}
