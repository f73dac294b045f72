/** Writing an exported model: trace, passes, weights, manifest. */
import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { FileError, mx, ProgramError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { quoted, systemReason } from '@mlx-runners/mlx-core/errors';
import { makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { ConstantStore } from './constants.js';
import { isExport, manifestHash, manifestName } from './exported-model.js';
import { fileFacts, type FileFacts } from './files.js';
import { formatVersion, type Manifest, type ProgramFile } from './format.js';
import type { Graph } from './graph.js';
import { tracesOf, type Method } from './method.js';
import { removeDeadCode } from './passes/dead-code.js';
import { allPasses } from './passes/optimise.js';
import type { Pass } from './passes/pass.js';
import { quantiseLinears, type LinearQuantisation } from './passes/quantise-linears.js';
import { programText, serialise } from './serialise.js';
import { traceMethod } from './trace-method.js';

export interface ExportDescription {
  model: { id: string; revision?: string; license?: string };
  /** Of activations and weights that are not quantised. */
  dtype: Dtype;
  /** Of linear layers, after all passes. */
  qlinear?: LinearQuantisation;
  /** Published constants: context length, mask token … */
  constants?: Manifest['constants'];
  /** A method, or its traces: the first whose dimensions fit a call is run. */
  methods: Readonly<Record<string, Method | readonly Method[]>>;
  /** The model's parameters by name. */
  parameters: ReadonlyMap<string, MxArray>;
  /** What runs between trace and writing: all passes, unless given. */
  passes?: readonly Pass[];
  /** Further files, such as the tokenizer: their names in the folder, and where they are. */
  files?: Readonly<Record<string, string>>;
}

export interface ExportOptions {
  signal?: AbortSignal;
}

const weightsName = 'weights.safetensors';

/**
 * Exports a model to a folder, which appears whole or not at all and replaces an earlier export.
 *
 * @throws ProgramError for what can't be traced, FileError when the folder can't be written or holds
 *   something else
 */
export async function exportModel(
  folder: string,
  description: ExportDescription,
  { signal }: ExportOptions = {},
): Promise<Manifest> {
  checkReplaceable(folder);
  checkNames(description);
  // Of tied parameters the first name counts.
  const named = [...description.parameters].reverse();
  const names = new Map(named.map(([name, array]) => [array, name]));
  const store = new ConstantStore();
  const passes = passesOf(description);
  const programs: ProgramFile[] = [];
  for (const [name, method] of Object.entries(description.methods)) {
    const graphs: Graph[] = [];
    for (const each of tracesOf(method)) {
      const { graph, constants } = await traceMethod(name, each, { names, signal });
      graphs.push(
        passes.reduce((result, pass) => pass(result, store), store.adopt(graph, constants)),
      );
    }
    programs.push(serialise(name, graphs));
  }
  return writing(folder, (draft) => {
    const files: Record<string, FileFacts> = {};
    const add = (path: string, write: (place: string) => void): void => {
      makeFolder(dirname(join(draft, path)));
      write(join(draft, path));
      files[path] = fileFacts(join(draft, path));
    };
    for (const program of programs) {
      add(`programs/${program.method}.json`, (place) => writeFileSync(place, programText(program)));
    }
    const weights = new Map(namesOfConstants(programs).map((name) => [name, store.get(name)]));
    add(weightsName, (place) => mx.saveSafetensors(place, weights));
    for (const [path, source] of Object.entries(description.files ?? {})) {
      add(path, (place) => copyFileSync(source, place));
    }
    const manifest = manifestOf(description, programs, files);
    writeFileSync(join(draft, manifestName), `${JSON.stringify(manifest, undefined, 2)}\n`);
    return manifest;
  });
}

function passesOf({ passes = allPasses, qlinear }: ExportDescription): readonly Pass[] {
  // The weights that were quantised are not needed any more.
  return qlinear ? [...passes, quantiseLinears(qlinear), removeDeadCode] : passes;
}

function namesOfConstants(programs: readonly ProgramFile[]): string[] {
  const traces = programs.flatMap((program) => program.traces);
  return [...new Set(traces.flatMap(({ constants }) => constants.map(({ name }) => name)))];
}

function manifestOf(
  description: ExportDescription,
  programs: readonly ProgramFile[],
  files: Record<string, FileFacts>,
): Manifest {
  const manifest = {
    formatVersion,
    mlx: mx.buildInfo().mlx,
    model: description.model,
    dtype: description.dtype,
    quantization: description.qlinear ? { linear: { ...description.qlinear } } : null,
    constants: description.constants ?? {},
    states: statesOf(description),
    methods: Object.fromEntries(programs.map((program) => [program.method, methodOf(program)])),
    weights: [weightsName],
    files,
  } as const;
  // As JSON has it, so that the hash is that of what is read again.
  const plain = JSON.parse(JSON.stringify(manifest)) as Omit<Manifest, 'sha256'>;
  return { ...plain, sha256: manifestHash(plain) };
}

function statesOf({ methods }: ExportDescription): Manifest['states'] {
  const states: Manifest['states'] = {};
  for (const method of Object.values(methods).flatMap(tracesOf)) {
    for (const [name, { dtype, shape }] of Object.entries(method.states ?? {})) {
      const known = states[name];
      if (known && (known.dtype !== dtype || known.shape.join() !== shape.join())) {
        throw new ProgramError(`The state ${name} has another dtype or shape in another method.`);
      }
      states[name] = { dtype, shape: [...shape] };
    }
  }
  return states;
}

/** As callers see it: dimensions range over all traces, types are those of the most general one. */
function methodOf({ method, traces }: ProgramFile): Manifest['methods'][string] {
  const { inputs, outputs, dimensions } = traces.at(-1)!;
  const types = (list: typeof inputs): Manifest['methods'][string]['inputs'] =>
    Object.fromEntries(list.map(({ name, dtype, shape }) => [name, { dtype, shape }]));
  const ranges = Object.entries(dimensions).map(([name, { multipleOf }]) => {
    const all = traces.map((trace) => trace.dimensions[name]);
    const min = Math.min(...all.map((each) => each.min));
    const max = Math.max(...all.map((each) => each.max));
    const same = all.every((each) => each.multipleOf === multipleOf);
    return [name, same ? { min, max, multipleOf } : { min, max }] as const;
  });
  return {
    program: `programs/${method}.json`,
    dimensions: Object.fromEntries(ranges),
    inputs: types(inputs),
    outputs: types(outputs),
  };
}

/** Methods and files become files of the folder. */
function checkNames({ methods, files = {} }: ExportDescription): void {
  const method = Object.keys(methods).find((name) => !/^[A-Za-z_][\w-]*$/.test(name));
  if (method !== undefined) {
    throw new ProgramError(
      `A method's name has letters, digits, _ and -, and begins with a letter or _: not ${quoted(method)}.`,
    );
  }
  const file = Object.keys(files).find(
    (name) => isAbsolute(name) || /(^|[\\/])\.{0,2}([\\/]|$)/.test(name),
  );
  if (file !== undefined) {
    throw new ProgramError(`${quoted(file)} names no file inside the folder.`);
  }
}

function checkReplaceable(folder: string): void {
  if (!existsSync(folder) || isExport(folder)) return;
  const isEmpty = explained(folder, () => readdirSync(folder).length === 0);
  if (!isEmpty) throw new FileError(`${folder} can't be replaced: it is no exported model.`);
}

/** Writes a folder beside its place, then renames it. */
function writing<T>(given: string, write: (draft: string) => T): T {
  const folder = resolve(given);
  const draft = `${folder}.${randomBytes(6).toString('hex')}.partial`;
  const old = `${draft}.old`;
  return explained(folder, () => {
    try {
      makeFolder(dirname(draft));
      mkdirSync(draft);
      const result = write(draft);
      if (existsSync(folder)) renameSync(folder, old);
      renameSync(draft, folder);
      return result;
    } finally {
      rmSync(draft, { recursive: true, force: true });
      rmSync(old, { recursive: true, force: true });
    }
  });
}

function explained<T>(folder: string, fn: () => T): T {
  try {
    return fn();
  } catch (cause) {
    if (!(cause instanceof Error && 'syscall' in cause)) throw cause;
    throw new FileError(`${folder} can't be written: ${systemReason(cause)}.`, { cause });
  }
}
