import {
  findModel,
  listModels,
  modelId,
  removeModel,
  verifyModel,
  type CachedModel,
  type ModelSources,
  type VerifiedModel,
} from '@mlx-runners/hub';
import { printable } from '@mlx-runners/mlx-core/errors';
import type { Command } from 'commander';
import { EXIT_FAILURE } from './command-line.js';
import { interruptSignal } from './interruption.js';
import { nonEmpty } from './option-values.js';
import { downloadProgress } from './progress.js';

export interface ModelsCommandOptions {
  /** Gets the config.json of a model before its weights are fetched; throws for one that can't be used. */
  checkConfig?: (config: unknown) => void;
}

interface PullOptions {
  readonly revision?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/**
 * Adds `models list | pull ID | rm ID | verify [ID]`: what lies in the caches, and fetching, removing
 * and checking it. IDs are those of the hub, or short names of the runner's own models.
 */
export function addModelsCommand(
  program: Command,
  { models }: { models: ModelSources },
  { checkConfig }: ModelsCommandOptions = {},
): Command {
  const group = program.command('models').description('list, fetch, remove and check model files');
  const named = (name: string) => modelId(name, models);

  group
    .command('list')
    .description('list what is on this machine')
    .option('--json', 'print results as JSON, for programs')
    .action(async ({ json }: { json?: boolean }) => {
      const found = await listModels({ models });
      process.stdout.write(json ? asJson(found) : modelTable(found));
    });

  group
    .command('pull')
    .description('fetch a model, or what is missing of it')
    .argument('<id>')
    .option('--revision <name>', 'branch, tag or commit', nonEmpty('--revision'))
    .option('--json', 'print results as JSON, for programs')
    .option('--quiet', 'show no progress')
    .action(async (name: string, { revision, json, ...options }: PullOptions) => {
      using progress = downloadProgress(options);
      const found = await findModel(named(name), {
        models,
        revision,
        checkConfig,
        update: true,
        signal: interruptSignal(),
        onProgress: progress.update,
      });
      progress.stop();
      process.stdout.write(json ? asJson(found) : `${found.path}\n`);
    });

  group
    .command('rm')
    .description('remove a model from the caches, without asking')
    .argument('<id>')
    .option('--revision <name>', 'only this branch, tag or commit', nonEmpty('--revision'))
    .option('--json', 'print results as JSON, for programs')
    .action(async (name: string, { revision, json }: PullOptions) => {
      const id = named(name);
      const { bytes } = await removeModel(id, { revision, models });
      const what = revision === undefined ? id : `${id} at "${revision}"`;
      process.stdout.write(
        json ? asJson({ id, bytes }) : `removed ${what}: ${size(bytes)} freed\n`,
      );
    });

  group
    .command('verify')
    .description('hold files against their checksums')
    .argument('[id]', 'all models without')
    .option('--json', 'print results as JSON, for programs')
    .option('--quiet', 'show no progress')
    .action(async (name: string | undefined, { json, ...options }: PullOptions) => {
      using progress = downloadProgress(options);
      const verified = await verifyModel(name === undefined ? undefined : named(name), {
        models,
        signal: interruptSignal(),
        onProgress: progress.update,
      });
      progress.stop();
      process.stdout.write(json ? asJson(verified) : verified.map(verdict).join(''));
      if (!verified.every(isWhole)) process.exitCode = EXIT_FAILURE;
    });

  return group;
}

function asJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function isWhole({ damaged, missing }: VerifiedModel): boolean {
  return damaged.length === 0 && missing.length === 0;
}

function verdict(model: VerifiedModel): string {
  const { id, damaged, missing, unknown } = model;
  const named = (what: string, files: string[]) =>
    files.map((file) => `  ${what}: ${printable(file, Infinity)}`);
  const lines = [
    `${isWhole(model) ? 'ok    ' : 'FAILED'}  ${printable(id)} ${revision(model)}`,
    ...named('damaged', damaged),
    ...named('missing', missing),
    ...named('without a checksum', unknown),
  ];
  if (damaged.length > 0) lines.push('  remove the model ("models rm"), then fetch it again');
  else if (missing.length > 0) lines.push('  "models pull" fetches what is missing');
  return `${lines.join('\n')}\n`;
}

function modelTable(models: CachedModel[]): string {
  const rows = models.map((model) => [
    printable(model.id),
    revision(model),
    String(model.files),
    size(model.bytes),
    model.source,
    model.missing.length === 0 ? 'yes' : `no: ${shortened(model.missing)} missing`,
  ]);
  return table([['ID', 'REVISION', 'FILES', 'SIZE', 'FROM', 'COMPLETE'], ...rows]);
}

/** The start of the commit, and the branches and tags that stand for it. */
function revision({ revision = '-', refs }: CachedModel): string {
  return [revision.slice(0, 8), ...refs].map((name) => printable(name)).join(' ');
}

function shortened(names: string[]): string {
  const rest = names.length - 3;
  return (
    names
      .slice(0, 3)
      .map((name) => printable(name))
      .join(', ') + (rest > 0 ? ` and ${rest} more` : '')
  );
}

function size(bytes: number): string {
  const [unit, factor] = bytes < 1e6 ? (['kB', 1e3] as const) : (['MB', 1e6] as const);
  return `${(bytes / factor).toFixed(1)} ${unit}`;
}

function table(rows: string[][]): string {
  const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
  const lines = rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i]))
      .join('  ')
      .trimEnd(),
  );
  return `${lines.join('\n')}\n`;
}
