import { realpathSync } from 'node:fs';
import { join } from 'node:path';
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
 * @param inputPaths the inputs; those that are no files (addresses, say) are passed over
 * @throws UsageError for flags that contradict each other, for inputs that would be written to one
 *   file, and for outputs that would replace an input; FileError where the folder can't be written to
 */
export function planOutput<Format extends string>(
  { outputDir, outputFormat, json = false }: OutputOptions<Format | 'all'> & LogOptions,
  allFormats: readonly Format[],
  baseNames: readonly string[],
  inputPaths: readonly string[],
): OutputPlan<Format> {
  const [defaultFormat] = allFormats;
  const format = outputFormat ?? defaultFormat;
  const formats = format === 'all' ? allFormats : [format];
  if (outputDir !== undefined) {
    checkDistinct(baseNames);
    const outputs = baseNames.flatMap((name) => formats.map((each) => `${name}.${each}`));
    checkNoInput(
      outputs.map((name) => join(outputDir, name)),
      inputPaths,
    );
    checkWritableFolder(outputDir);
  } else if (json && outputFormat !== undefined) {
    throw new UsageError(
      `--json and --output-format ${format} both say what goes to stdout: leave one out, or give --output-dir.`,
    );
  } else if (format === 'all' || (format !== defaultFormat && baseNames.length > 1)) {
    const what = format === 'all' ? 'All formats' : `${format} of several inputs`;
    throw new UsageError(`${what} can't share stdout: give --output-dir.`);
  }
  return { formats, outputDir, json };
}

/** Writing follows links, so a link in the output folder may lead to an input. */
function checkNoInput(outputs: readonly string[], inputPaths: readonly string[]): void {
  const inputs = new Set(inputPaths.map(realPath));
  for (const output of outputs) {
    const place = realPath(output);
    if (place === undefined || !inputs.has(place)) continue;
    throw new UsageError(
      `${output} would be written over an input: give another --output-dir, or rename the input.`,
    );
  }
}

/** As the file system spells it, which may ignore case; undefined where there is nothing. */
function realPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function checkDistinct(baseNames: readonly string[]): void {
  const twice = baseNames.find((name, i) => baseNames.indexOf(name) !== i);
  if (twice === undefined) return;
  throw new UsageError(
    `Two inputs would be written as ${twice}: give them to separate runs, or rename one.`,
  );
}
