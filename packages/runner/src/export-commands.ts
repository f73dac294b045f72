import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { printable, ProgramError, UsageError } from '@mlx-runners/mlx-core/errors';
import {
  exportMlxfn,
  exportModel,
  formatMlxfn,
  formatReport,
  inspectExport,
  isExport,
  verifyFiles,
  type CheckOptions,
  type ExportBudgets,
  type ExportDescription,
  type ReloadableModel,
  type SessionOptions,
} from '@mlx-runners/program';
import type { TransferOptions } from '@mlx-runners/hub';
import { Option, type Command } from 'commander';
import { EXIT_FAILURE } from './command-line.js';
import { addRunExportCommand, checkSubject, formatFindings } from './export-check.js';
import { interruptSignal } from './interruption.js';
import { nonEmpty } from './option-values.js';
import { downloadProgress } from './progress.js';
import {
  quantisationNames,
  quantisationOf,
  withQuantisationOptions,
  type QuantisationOptions,
} from './quantisation-options.js';
import type { RunnerManifest } from './runner-json.js';
import { choice, withModelOptions, type ModelOptions } from './shared-options.js';
import { parseSizes, type SizesOfMethods } from './sizes-option.js';
import { userPath } from './user-path.js';

/** A model that is loaded, and what is exported of it. */
export interface ExportSubject extends Pick<ReloadableModel, 'load'> {
  description: ExportDescription;
  /** What the export may cost. Those of runner.json are for models with as many layers as the small one. */
  budgets?: ExportBudgets;
  /**
   * Methods to compare with instead of the description's: where those need a cache that calls are given, the same with
   * keys and values in states.
   */
  eager?: ExportDescription['methods'];
  cacheLengths?: CheckOptions['cacheLengths'];
  dispose(): void | Promise<void>;
}

/** @typeParam Own options that only this runner has, as `withOptions` adds them */
export interface ExportCommandsOptions<Own extends object = object> {
  /** Adds options to `export` and `export-check`; `load` and `tiny` get what the user gave. */
  withOptions?: (command: Command) => unknown;
  /** Whether descriptions name `encoderMethods`, which are then quantised apart. */
  encoder?: boolean;
  /** Loads the model that the user named. */
  load: (options: ModelOptions & Own, transfer: TransferOptions) => Promise<ExportSubject>;
  /** The command that runs an export, for the user to go on with. */
  example?: (folder: string) => string;
  /** A model of the same make with few, random weights. */
  tiny: (options: Pick<ModelOptions, 'dtype'> & Own) => ExportSubject | Promise<ExportSubject>;
  /** What calls need beside inputs, such as a cache: export-check runs the export in a new process of this program. */
  sessionOptions?: SessionOptions;
}

const formats = ['mlx-runners', 'mlxfn'] as const;

interface FormatOptions {
  format: (typeof formats)[number];
  sizes?: SizesOfMethods;
}

interface Exporting {
  out: string;
  quiet?: boolean;
}

/** `--format`, `--sizes`. */
function withFormat<C extends Command>(command: C): C {
  return command
    .addOption(
      choice(
        '--format',
        "what to write; mlxfn is for MLX in Python, which needs none of the model's code",
        formats,
      ).default('mlx-runners'),
    )
    .addOption(
      new Option(
        '--sizes <method:dimensions>',
        'sizes to write a method at, with --format mlxfn: decode:T=1,past=0..9; repeatable',
      ).argParser(parseSizes('--sizes')),
    );
}

/** Exports in one of the formats and gives a report. */
async function exportAs(
  { format, sizes }: FormatOptions,
  folder: string,
  description: ExportDescription,
): Promise<string> {
  const signal = interruptSignal();
  if (format === 'mlxfn') {
    return formatMlxfn(await exportMlxfn(folder, description, { sizes, signal }));
  }
  await exportModel(folder, description, { signal });
  return formatReport(inspectExport(folder));
}

/**
 * Adds `export`, `export-check` and `inspect`.
 *
 * @param manifest whose `exportConstants` export-check holds exports to
 */
export function addExportCommands<Own extends object = object>(
  program: Command,
  { defaultModel, exportConstants }: RunnerManifest,
  { withOptions, encoder, load, tiny, example, sessionOptions }: ExportCommandsOptions<Own>,
): void {
  type Options = ModelOptions & Own;
  const withSubjectOptions = (command: Command, named: string): Command => {
    withQuantisationOptions(withModelOptions(command, { defaultModel: named }), { encoder });
    withOptions?.(command);
    return command;
  };
  const loadNamed = async (options: Options & { quiet?: boolean }): Promise<ExportSubject> => {
    if (isExport(options.model)) {
      throw new UsageError(
        `${options.model} is an export already: name the model that it was made from.`,
      );
    }
    using progress = downloadProgress();
    return await load(options, { signal: interruptSignal(), onProgress: progress.update });
  };

  const exporting = program
    .command('export')
    .description('write a model as a folder that runs without its code')
    .addOption(
      new Option('--out <folder>', 'the folder to write; replaces an earlier export')
        .makeOptionMandatory()
        .argParser((value) => userPath(nonEmpty('--out')(value))),
    )
    .option('--quiet', 'show no progress');
  withFormat(withSubjectOptions(exporting, defaultModel)).action(
    async ({ out, quiet, format, sizes, ...rest }: Options & FormatOptions & Exporting) => {
      const tell = (text: string): void => {
        if (!quiet) process.stderr.write(`${printable(text, Infinity)}\n`);
      };
      const [options, quantisation] = apart(rest as Options & QuantisationOptions);
      if (sizes !== undefined && format !== 'mlxfn') {
        throw new UsageError('--sizes goes with --format mlxfn.');
      }
      const subject = await loadNamed(options);
      try {
        const description = { ...subject.description, ...quantisation };
        tell(`exporting ${description.model.id}`);
        process.stdout.write(await exportAs({ format, sizes }, out, description));
        const runs = format === 'mlxfn' ? undefined : example?.(out);
        tell(`wrote ${out}${runs === undefined ? '' : `: ${runs}`}`);
      } finally {
        await subject.dispose();
      }
    },
  );

  const checking = program
    .command('export-check')
    .description('export, load in a new process, and compare with the model and the budgets')
    .option('--json', 'print results as JSON, for programs');
  withSubjectOptions(checking, '').action(
    async ({ json, ...rest }: Options & QuantisationOptions & { json?: boolean }) => {
      const [options, quantisation] = apart(rest as Options & QuantisationOptions);
      if (options.model === '' && options.device) mx.setDevice(options.device);
      const subject = options.model === '' ? await tiny(options) : await loadNamed(options);
      try {
        const description = { ...subject.description, ...quantisation };
        const findings = await checkSubject({ ...subject, description }, exportConstants);
        const ok = findings.every((finding) => finding.ok);
        const text = json ? JSON.stringify({ ok, findings }, null, 2) : formatFindings(findings);
        process.stdout.write(`${text}\n`);
        if (!ok) process.exitCode = EXIT_FAILURE;
      } finally {
        await subject.dispose();
      }
    },
  );
  const model = checking.options.find(({ long }) => long === '--model')!;
  model.description = 'model to export; a small one with random weights unless given';
  model.defaultValue = '';
  model.defaultValueDescription = 'none';

  program
    .command('inspect')
    .description('show what is in an exported model')
    .argument('<folder>')
    .option('--verify', 'also hold all files against their checksums')
    .option('--json', 'print results as JSON, for programs')
    .action(async (name: string, { json, verify }: { json?: boolean; verify?: boolean }) => {
      const folder = userPath(name);
      checkIsExport(folder);
      if (verify) await verifyFiles(folder, { signal: interruptSignal() });
      const report = inspectExport(folder);
      const files = Object.keys(report.manifest.files).length;
      const verified = verify ? `${files} files, all as they were exported\n` : '';
      const asJson = { ...report, ...(verify && { verified: true }) };
      process.stdout.write(
        json ? `${JSON.stringify(asJson, null, 2)}\n` : formatReport(report) + verified,
      );
    });

  addRunExportCommand(program, sessionOptions);
}

/** A model's options without those of quantisation, and these as a description has them. */
function apart<Options extends QuantisationOptions>(
  given: Options,
): [Options, ReturnType<typeof quantisationOf>] {
  const isOwn = ([name]: [string, unknown]): boolean => !quantisationNames.has(name);
  const options = Object.fromEntries(Object.entries(given).filter(isOwn)) as Options;
  return [options, quantisationOf(given)];
}

/** @throws ProgramError that says what a folder is that holds no export */
function checkIsExport(folder: string): void {
  if (isExport(folder)) return;
  if (!existsSync(folder)) throw new ProgramError(`${folder} does not exist.`);
  if (!statSync(folder).isDirectory()) {
    throw new ProgramError(`${folder} is a file: an export is a folder.`);
  }
  if (existsSync(join(folder, 'mlxfn.json'))) {
    throw new ProgramError(`${folder} holds .mlxfn files, which mlxfn.json in it describes.`);
  }
  if (existsSync(join(folder, 'programs'))) {
    throw new ProgramError(`${folder} is an export that lacks its manifest.json.`);
  }
  const isModel = ['config.json', 'model.bin'].some((file) => existsSync(join(folder, file)));
  throw new ProgramError(
    isModel
      ? `${folder} holds a model's own files; "export --model" makes an export of them.`
      : `${folder} is no export: it has no manifest.json.`,
  );
}
