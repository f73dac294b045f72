/** Writing an exported model: trace, passes, weights, manifest. */
import { copyFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CheckpointError, mx, ProgramError } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { makeFolder } from '@mlx-runners/mlx-core/whole-file';
import { z } from 'zod';
import { checkedTraces, checkSameOutputs } from './check-method.js';
import { ConstantStore } from './constants.js';
import { checkDescription, type ExportDescription } from './description.js';
import { loadExport } from './exported-model.js';
import { fileFacts, type FileFacts } from './files.js';
import {
  formatVersion,
  manifestName,
  programPath,
  weightsName,
  type Manifest,
  type ProgramFile,
} from './format.js';
import type { Graph } from './graph.js';
import { tracesOf } from './method.js';
import { abortSignal } from './option-schemas.js';
import { removeDeadCode } from './passes/dead-code.js';
import { allPasses } from './passes/optimise.js';
import type { Pass } from './passes/pass.js';
import { quantiseLinears } from './passes/quantise-linears.js';
import { checkedFolder, manifestHash } from './read-export.js';
import { checkReplaceable, replaceFolder } from './replace-folder.js';
import { programText, serialise } from './serialise.js';
import { signatureOf } from './signature.js';
import { traceMethod } from './trace-method.js';

export interface ExportOptions {
  signal?: AbortSignal;
}

const exportOptions = z.strictObject({ signal: abortSignal() });

/**
 * Exports a model to a folder, which appears whole or not at all, once it was loaded. It replaces an earlier
 * export; a folder with anything else in it is refused. A link to a folder stays one.
 *
 * @throws UsageError for a description that makes no sense, ProgramError for what can't be traced or would not
 *   be loaded, FileError when the folder can't be written, AbortedError when the signal fires
 */
export async function exportModel(
  folder: string,
  given: ExportDescription,
  options: ExportOptions = {},
): Promise<Manifest> {
  checkedFolder('exportModel()', folder);
  const { signal } = checkOptions('exportModel()', exportOptions, options);
  const description = checkDescription(given);
  checkReplaceable(folder);
  const store = new ConstantStore();
  const programs = await tracedPrograms(description, store, signal);
  return replaceFolder(folder, async (draft) => {
    const files: Record<string, FileFacts> = {};
    const add = async (path: string, write: (place: string) => void): Promise<void> => {
      throwIfAborted(signal);
      makeFolder(dirname(join(draft, path)));
      write(join(draft, path));
      files[path] = await fileFacts(join(draft, path), signal);
    };
    for (const program of programs) {
      await add(programPath(program.method), (place) => writeFileSync(place, programText(program)));
    }
    const weights = new Map(namesOfConstants(programs).map((name) => [name, store.get(name)]));
    await add(weightsName, (place) => mx.saveSafetensors(place, weights));
    for (const [path, source] of Object.entries(description.files ?? {})) {
      await add(path, (place) => copyFileSync(source, place));
    }
    const manifest = manifestOf(description, programs, files);
    writeFileSync(join(draft, manifestName), `${JSON.stringify(manifest, undefined, 2)}\n`);
    checkLoads(draft, folder);
    return manifest;
  });
}

async function tracedPrograms(
  description: ExportDescription,
  store: ConstantStore,
  signal: AbortSignal | undefined,
): Promise<ProgramFile[]> {
  // Of tied parameters the first name counts.
  const named = [...description.parameters].reverse();
  const names = new Map(named.map(([name, array]) => [array, name]));
  const passes = passesOf(description);
  const programs: ProgramFile[] = [];
  for (const [name, method] of Object.entries(description.methods)) {
    const graphs: Graph[] = [];
    for (const each of checkedTraces(name, method)) {
      const { graph, constants } = await traceMethod(name, each, { names, signal });
      graphs.push(
        passes.reduce((result, pass) => pass(result, store), store.adopt(graph, constants)),
      );
    }
    checkSameOutputs(name, graphs);
    programs.push(serialise(name, graphs));
  }
  return programs;
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
  const methods = programs.map((program) => {
    return [program.method, { program: programPath(program.method), ...signatureOf(program) }];
  });
  const manifest = {
    formatVersion,
    mlx: mx.buildInfo().mlx,
    model: description.model,
    dtype: description.dtype,
    quantization: description.qlinear ? { linear: { ...description.qlinear } } : null,
    constants: description.constants ?? {},
    states: statesOf(description),
    methods: Object.fromEntries(methods) as Manifest['methods'],
    weights: [weightsName],
    files,
  } as const;
  // As JSON has it, so that the hash is that of what is read again.
  const plain = JSON.parse(JSON.stringify(manifest)) as Omit<Manifest, 'sha256'>;
  return { ...plain, sha256: manifestHash(plain) };
}

function statesOf({ methods }: ExportDescription): Manifest['states'] {
  const states = new Map<string, Manifest['states'][string]>();
  for (const method of Object.values(methods).flatMap(tracesOf)) {
    for (const [name, { dtype, shape }] of Object.entries(method.states ?? {})) {
      const known = states.get(name);
      if (known && (known.dtype !== dtype || known.shape.join() !== shape.join())) {
        throw new ProgramError(`The state ${name} has another dtype or shape in another method.`);
      }
      states.set(name, { dtype, shape: [...shape] });
    }
  }
  return Object.fromEntries(states);
}

/** What the loader refuses is refused now, with its reasons and under the folder's own name. */
function checkLoads(draft: string, folder: string): void {
  try {
    loadExport(draft).dispose();
  } catch (cause) {
    if (!(cause instanceof ProgramError || cause instanceof CheckpointError)) throw cause;
    throw new ProgramError(cause.message.replaceAll(draft, folder), { cause });
  }
}
