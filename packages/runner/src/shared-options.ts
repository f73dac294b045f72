import { Option, type Command } from 'commander';
import { DEVICES, DTYPES } from './load-options.js';
import * as schemas from './option-schemas.js';
import { nonEmpty, oneOf, valueOf, wholeNumber } from './option-values.js';
import { userModel, userPath } from './user-path.js';

/**
 * The flags that mean the same in every runner. A command has those of the groups it adopts; the
 * interface beside each group is what `command.opts()` then holds.
 */

export interface ModelOptions {
  /** Id of a model, or absolute path of its folder or file. */
  readonly model: string;
  /** Undefined: the machine's best. */
  readonly device?: (typeof DEVICES)[number];
  /** Of the weights and activations; undefined: what suits the device. */
  readonly dtype?: (typeof DTYPES)[number];
  /** Undefined: one per core. */
  readonly threads?: number;
}

/** `--model`, `--device`, `--dtype`, `--threads`. */
export function withModelOptions<C extends Command>(
  command: C,
  { defaultModel }: { defaultModel: string },
): C {
  return command
    .addOption(
      new Option('-m, --model <id or path>', 'model to use')
        .default(defaultModel)
        .argParser((value) => userModel(nonEmpty('--model')(value))),
    )
    .addOption(choice('--device', 'where to compute', DEVICES))
    .addOption(choice('--dtype', 'dtype of weights and activations', DTYPES))
    .addOption(
      new Option('--threads <n>', 'CPU threads').argParser(
        wholeNumber('--threads', { min: 1, max: 1024 }),
      ),
    );
}

export interface SeedOptions {
  readonly seed?: number;
}

/** `--seed`. */
export function withSeedOption<C extends Command>(command: C): C {
  return command.addOption(
    new Option('--seed <n>', 'seed of everything drawn at random').argParser(
      valueOf('--seed', schemas.seed()),
    ),
  );
}

export interface LogOptions {
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** `--json`, `--quiet`. */
export function withLogOptions<C extends Command>(command: C): C {
  return command
    .option('--json', 'print results as JSON, for programs')
    .option('--quiet', 'show no progress');
}

export interface OutputOptions<Format extends string = string> {
  /** Absolute path; undefined: results go to stdout. */
  readonly outputDir?: string;
  /** Undefined: the default, which can be told from one that was asked for. */
  readonly outputFormat?: Format;
}

/** `--output-dir`, `--output-format`. */
export function withOutputOptions<C extends Command, Format extends string>(
  command: C,
  { formats, defaultFormat }: { formats: readonly Format[]; defaultFormat: NoInfer<Format> },
): C {
  return command
    .addOption(
      new Option('-o, --output-dir <folder>', 'write a file per input there').argParser((value) =>
        userPath(nonEmpty('--output-dir')(value)),
      ),
    )
    .addOption(
      choice('--output-format', `format of results, ${defaultFormat} unless given`, formats),
    );
}

/** An option whose help lists the values it takes. */
export function choice(flag: string, description: string, values: readonly string[]): Option {
  return new Option(`${flag} <${flag.slice(2).split('-').at(-1)}>`, description)
    .choices(values)
    .argParser(oneOf(flag, values));
}
