/** `export-check`: exports, runs the export in a new process, and compares. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, MxArray } from '@mlx-runners/mlx-core';
import { ProgramError, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import {
  checkExport,
  exportModel,
  runExportHere,
  type Arrays,
  type ExportCall,
  type Finding,
  type RunExport,
  type SessionOptions,
} from '@mlx-runners/program';
import type { Command } from 'commander';
import type { ExportSubject } from './export-commands.js';
import { interruptSignal, onInterrupt } from './interruption.js';

const runCommand = 'run-export';

export async function checkSubject(
  { description, budgets, load, eager, cacheLengths }: ExportSubject,
  constants: readonly string[] | undefined,
): Promise<Finding[]> {
  const scratch = mkdtempSync(join(tmpdir(), 'export-check-'));
  const remove = (): void => rmSync(scratch, { recursive: true, force: true });
  const forget = onInterrupt(remove);
  const signal = interruptSignal();
  try {
    const folder = join(scratch, 'model');
    await exportModel(folder, description, { signal });
    return await checkExport(folder, {
      methods: eager ?? description.methods,
      cacheLengths,
      model: { parameters: description.parameters, load },
      budgets,
      constants,
      run: inNewProcess(scratch),
      signal,
    });
  } finally {
    forget();
    remove();
  }
}

export function formatFindings(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ what }) => what.length));
  const lines = findings.map(
    ({ what, ok, found }) => `${ok ? 'ok  ' : 'FAIL'}  ${what.padEnd(width)}  ${found}`,
  );
  const failed = findings.filter(({ ok }) => !ok).length;
  return [...lines, failed === 0 ? 'ok' : `FAILED: ${failed} of ${findings.length}`].join('\n');
}

/** Runs methods in a process that has loaded nothing but the export: this program once more. */
function inNewProcess(scratch: string): RunExport {
  return async (folder, calls, signal) => {
    const [given, made] = [
      join(scratch, 'inputs.safetensors'),
      join(scratch, 'outputs.safetensors'),
    ];
    writeCalls(given, calls);
    await selfWith([runCommand, folder, given, made], signal);
    return outputsOf(made, calls.length);
  };
}

/** Arrays are named `<call>.<name>`, and everything else is metadata. */
function writeCalls(path: string, calls: readonly ExportCall[]): void {
  const arrays: Arrays = {};
  const plain = calls.map(({ method, inputs }, i) => {
    const sizes: Record<string, number> = {};
    for (const [name, value] of Object.entries(inputs)) {
      if (value instanceof MxArray) arrays[`${i}.${name}`] = value;
      else sizes[name] = value;
    }
    return { method, sizes };
  });
  mx.saveSafetensors(path, arrays, { calls: JSON.stringify(plain) });
}

function outputsOf(path: string, count: number): Arrays[] {
  return byCall(mx.loadSafetensors(path).tensors, count);
}

function byCall(tensors: ReadonlyMap<string, MxArray>, count: number): Arrays[] {
  const calls = Array.from({ length: count }, (): Arrays => ({}));
  for (const [name, tensor] of tensors) {
    const dot = name.indexOf('.');
    calls[Number(name.slice(0, dot))][name.slice(dot + 1)] = tensor;
  }
  return calls;
}

/** Adds the command that `export-check` starts in a new process. */
export function addRunExportCommand(program: Command, sessionOptions?: SessionOptions): void {
  program
    .command(runCommand, { hidden: true })
    .argument('<folder>')
    .argument('<inputs>', 'safetensors: arrays, and calls in the metadata')
    .argument('<outputs>', 'safetensors, written')
    .action((...paths: [folder: string, inputs: string, outputs: string]) =>
      runExport(paths, sessionOptions),
    );
}

async function runExport(
  [folder, inputs, outputs]: readonly [folder: string, inputs: string, outputs: string],
  sessionOptions?: SessionOptions,
): Promise<void> {
  const { tensors, metadata } = mx.loadSafetensors(inputs);
  const calls = JSON.parse(metadata.calls) as { method: string; sizes: Record<string, number> }[];
  const arrays = byCall(tensors, calls.length);
  const all = calls.map(({ method, sizes }, i) => ({ method, inputs: { ...arrays[i], ...sizes } }));
  const made: Arrays = {};
  const options = { signal: interruptSignal(), sessionOptions };
  for (const [i, results] of (await runExportHere(folder, all, options)).entries()) {
    for (const [name, array] of Object.entries(results)) made[`${i}.${name}`] = array;
  }
  mx.saveSafetensors(outputs, made);
}

async function selfWith(args: readonly string[], signal?: AbortSignal): Promise<void> {
  throwIfAborted(signal);
  const child = spawn(process.execPath, [...process.execArgv, process.argv[1], ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const kill = (): void => void child.kill('SIGKILL');
  const forget = onInterrupt(kill);
  signal?.addEventListener('abort', kill);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  try {
    const [code, killed] = await new Promise<[number | null, NodeJS.Signals | null]>(
      (resolve, reject) => {
        child.on('error', reject);
        child.on('close', (...ended) => resolve(ended));
      },
    );
    throwIfAborted(signal);
    if (code !== 0) {
      throw new ProgramError(`A new process failed (${code ?? killed}): ${said.trim()}`);
    }
  } finally {
    forget();
    signal?.removeEventListener('abort', kill);
  }
}
