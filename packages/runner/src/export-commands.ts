import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, MxArray } from '@mlx-runners/mlx-core';
import { ProgramError, UsageError } from '@mlx-runners/mlx-core/errors';
import {
  checkExport,
  exportModel,
  formatReport,
  inspectExport,
  loadExport,
  type Arrays,
  type ExportDescription,
  type Finding,
  type LinearQuantisation,
  type RunExport,
} from '@mlx-runners/program';
import { Option, type Command } from 'commander';
import { EXIT_FAILURE } from './command-line.js';
import { nonEmpty, oneOf } from './option-values.js';
import type { RunnerManifest } from './runner-json.js';
import { choice, withModelOptions, type ModelOptions } from './shared-options.js';
import { userPath } from './user-path.js';

/** A model that is loaded, and what is exported of it. */
export interface ExportSubject {
  description: ExportDescription;
  dispose(): void | Promise<void>;
}

export interface ExportCommandsOptions {
  /** Loads the model that the user named. */
  load: (options: ModelOptions) => Promise<ExportSubject>;
  /** A model of the same make with few, random weights. */
  tiny: () => ExportSubject | Promise<ExportSubject>;
}

const runCommand = 'run-export';

interface ExportOptions extends ModelOptions {
  out: string;
  qlinear?: keyof typeof bitsOf;
  qlinearGroupSize?: LinearQuantisation['groupSize'];
}

const bitsOf = { '4w': 4, '8w': 8 } as const;
const groupSizes = [32, 64, 128] as const;

/** `--qlinear`, `--qlinear-group-size`. */
function withQuantisation<C extends Command>(command: C): C {
  return command
    .addOption(choice('--qlinear', 'quantise linear layers, to 4 or 8 bits', Object.keys(bitsOf)))
    .addOption(
      choice(
        '--qlinear-group-size',
        'weights that share a scale, with --qlinear; 64 unless given',
        groupSizes.map(String),
      ).argParser((value) => Number(oneOf('--qlinear-group-size', groupSizes.map(String))(value))),
    );
}

/**
 * Adds `export`, `export-check` and `inspect`.
 *
 * @param manifest whose `exportBudgets` and `exportConstants` export-check holds exports to
 */
export function addExportCommands(
  program: Command,
  manifest: RunnerManifest,
  { load, tiny }: ExportCommandsOptions,
): void {
  const { defaultModel } = manifest;
  const exporting = program
    .command('export')
    .description('write a model as a folder that runs without its code')
    .addOption(
      new Option('--out <folder>', 'the folder to write; replaces an earlier export')
        .makeOptionMandatory()
        .argParser((value) => userPath(nonEmpty('--out')(value))),
    );
  withQuantisation(withModelOptions(exporting, { defaultModel })).action(
    async ({ out, qlinear, qlinearGroupSize, ...options }: ExportOptions) => {
      if (qlinearGroupSize !== undefined && qlinear === undefined) {
        throw new UsageError('--qlinear-group-size goes with --qlinear 4w or 8w.');
      }
      const subject = await load(options);
      try {
        await exportModel(out, {
          ...subject.description,
          qlinear: qlinear && { bits: bitsOf[qlinear], groupSize: qlinearGroupSize ?? 64 },
        });
      } finally {
        await subject.dispose();
      }
      process.stdout.write(formatReport(inspectExport(out)));
    },
  );

  const checking = program
    .command('export-check')
    .description('export, load in a new process, and compare with the model and the budgets')
    .option('--json', 'print results as JSON, for programs');
  withModelOptions(checking, { defaultModel: '' }).action(
    async ({ json, ...options }: ModelOptions & { json?: boolean }) => {
      const subject = options.model === '' ? await tiny() : await load(options);
      const findings = await check(subject, manifest);
      const ok = findings.every((finding) => finding.ok);
      const text = json ? JSON.stringify({ ok, findings }, null, 2) : formatFindings(findings);
      process.stdout.write(`${text}\n`);
      if (!ok) process.exitCode = EXIT_FAILURE;
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
    .option('--json', 'print results as JSON, for programs')
    .action((folder: string, { json }: { json?: boolean }) => {
      const report = inspectExport(userPath(folder));
      process.stdout.write(json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
    });

  program
    .command(runCommand, { hidden: true })
    .argument('<folder>')
    .argument('<method>')
    .argument('<inputs>', 'safetensors; dimensions are its metadata')
    .argument('<outputs>', 'safetensors, written')
    .action(runExport);
}

async function check(subject: ExportSubject, manifest: RunnerManifest): Promise<Finding[]> {
  const folder = mkdtempSync(join(tmpdir(), 'export-check-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  // An interrupted process ends without the rest of this function.
  process.once('exit', remove);
  try {
    await exportModel(join(folder, 'model'), subject.description);
    return await checkExport(join(folder, 'model'), {
      methods: subject.description.methods,
      budgets: manifest.exportBudgets,
      constants: manifest.exportConstants,
      run: inNewProcess(folder),
    });
  } finally {
    await subject.dispose();
    process.off('exit', remove);
    remove();
  }
}

/** Runs a method in a process that has loaded nothing but the export: this program once more. */
function inNewProcess(scratch: string): RunExport {
  return async (folder, method, inputs) => {
    const arrays = Object.entries(inputs).filter((entry) => entry[1] instanceof MxArray);
    const numbers = Object.entries(inputs).filter((entry) => typeof entry[1] === 'number');
    const [given, made] = [
      join(scratch, 'inputs.safetensors'),
      join(scratch, 'outputs.safetensors'),
    ];
    mx.saveSafetensors(
      given,
      Object.fromEntries(arrays) as Arrays,
      Object.fromEntries(numbers.map(([name, value]) => [name, String(value)])),
    );
    await selfWith([runCommand, folder, method, given, made]);
    return Object.fromEntries(mx.loadSafetensors(made).tensors);
  };
}

async function runExport(
  folder: string,
  method: string,
  inputs: string,
  outputs: string,
): Promise<void> {
  const { tensors, metadata } = mx.loadSafetensors(inputs);
  const numbers = Object.entries(metadata).map(([name, value]) => [name, Number(value)] as const);
  const session = loadExport(folder).session();
  const result = await session.run(method, {
    ...Object.fromEntries(tensors),
    ...Object.fromEntries(numbers),
  });
  mx.saveSafetensors(outputs, result.outputs);
}

function selfWith(args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [...process.execArgv, process.argv[1], ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      if (code === 0) resolve();
      else reject(new ProgramError(`A new process failed (${code ?? signal}): ${said.trim()}`));
    });
  });
}

function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ what }) => what.length));
  const lines = findings.map(
    ({ what, ok, found }) => `${ok ? 'ok  ' : 'FAIL'}  ${what.padEnd(width)}  ${found}`,
  );
  const failed = findings.filter(({ ok }) => !ok).length;
  return [...lines, failed === 0 ? 'ok' : `FAILED: ${failed} of ${findings.length}`].join('\n');
}
