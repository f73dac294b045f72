/** Writing a model in the format of MLX's own exporter, which MLX runs without anything of ours. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { NativeProgram } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { checkDescription, type ExportDescription } from './description.js';
import { DraftFiles } from './draft-files.js';
import { originOf, type ExportOptions } from './export-model.js';
import { slotsRead, type Manifest, type ProgramFile, type TraceFile } from './format.js';
import type { LoweredMethod } from './lowered-method.js';
import { mlxfnName, type MlxfnManifest, type MlxfnMethod } from './mlxfn-format.js';
import { sizesOfMethods } from './mlxfn-sizes.js';
import { abortSignal } from './option-schemas.js';
import { checkedFolder } from './read-export.js';
import { checkReplaceable, replaceFolder } from './replace-folder.js';
import { signatureOf } from './signature.js';
import type { Sizes } from './sizes.js';
import { lower } from './tables.js';
import { traceModel } from './traced-model.js';

export interface MlxfnOptions extends ExportOptions {
  /** By method: the values of its dimensions to write it at. Methods without dimensions need none. */
  sizes?: Readonly<Record<string, readonly Sizes[]>>;
}

const sizesNames = 'must be lists of { dimension: whole number } by method';

const mlxfnOptions = z.strictObject({
  signal: abortSignal(),
  sizes: z
    .record(
      z.string(),
      z.array(z.record(z.string(), z.int('must be a whole number'), sizesNames), sizesNames),
      sizesNames,
    )
    .optional(),
});

/**
 * Exports a model to a folder of `<method>.mlxfn` and `mlxfn.json`, which appears whole or not at all and
 * replaces an earlier export. The files run in MLX for Python, of the version that `mlxfn.json` names, on the
 * device that is set now.
 *
 * @throws UsageError for a description or sizes that make no sense, ShapeError for sizes that a method
 *   doesn't take, ProgramError for what can't be traced, or what MLX can't write, FileError when the folder
 *   can't be written, AbortedError when the signal fires
 */
export async function exportMlxfn(
  folder: string,
  given: ExportDescription,
  options: MlxfnOptions = {},
): Promise<MlxfnManifest> {
  checkedFolder('exportMlxfn()', folder);
  const { signal, sizes: givenSizes = {} } = checkOptions('exportMlxfn()', mlxfnOptions, options);
  const description = checkDescription('exportMlxfn()', given, {
    ofMethod: mlxfnPath,
    others: [mlxfnName],
  });
  const sizes = sizesOfMethods(description.methods, givenSizes);
  checkReplaceable(folder);
  const { programs, constants, states } = await traceModel(description, { signal });
  const { tables, methods: lowered } = lower(programs, states, constants);
  const native = new NativeProgram(tables);
  try {
    return await replaceFolder(folder, async (draft) => {
      const methods: MlxfnManifest['methods'] = {};
      const files = new DraftFiles(draft, signal);
      for (const program of programs) {
        const method = lowered.get(program.method)!;
        const entry = methodOf(program, method, states, sizes.get(program.method)!);
        const file = { ...nativeFile(method, entry, Object.keys(states)), signal };
        await files.add(entry.file, (place) => native.writeMlxfn(place, file));
        methods[program.method] = entry;
      }
      await files.copy(description.files);
      const manifest = { ...originOf(description), methods, files: files.facts };
      writeFileSync(join(draft, mlxfnName), `${JSON.stringify(manifest, undefined, 2)}\n`);
      return manifest;
    });
  } finally {
    native.dispose();
  }
}

function mlxfnPath(method: string): string {
  return `${method}.mlxfn`;
}

function methodOf(
  program: ProgramFile,
  { name, dimensions }: LoweredMethod,
  states: Manifest['states'],
  sizes: Sizes[],
): MlxfnMethod {
  const { inputs, outputs } = signatureOf(program);
  const { traces } = program;
  const writes = (state: string): boolean => traces.some((trace) => writesState(trace, state));
  const keeps = (state: string): boolean => !traces.every((trace) => writesState(trace, state));
  const nextStates = Object.keys(states).filter(writes);
  const argumentStates = Object.entries(states).filter(
    ([state]) =>
      traces.some((trace) => readsState(trace, state)) || (writes(state) && keeps(state)),
  );
  const lengths: MlxfnMethod['inputs'] = {};
  for (const dimension of dimensions.filter(({ inShapes }) => inShapes !== 'all')) {
    lengths[dimension.name] = { dtype: 'float32', shape: [dimension.name] };
  }
  return {
    file: mlxfnPath(name),
    inputs: { ...inputs, ...lengths },
    states: Object.fromEntries(argumentStates),
    outputs,
    nextStates,
    sizes,
  };
}

/** The same by the numbers that the interpreter has. */
function nativeFile(
  { number, dimensions }: LoweredMethod,
  { states, nextStates, sizes }: MlxfnMethod,
  all: readonly string[],
): Parameters<NativeProgram['writeMlxfn']>[1] {
  return {
    method: number,
    sizes: sizes.map((each) => Float64Array.from(dimensions, ({ name }) => each[name])),
    dimensions: dimensions.flatMap(({ inShapes }, i) => (inShapes === 'all' ? [] : [i])),
    states: Object.keys(states).map((name) => all.indexOf(name)),
    nextStates: nextStates.map((name) => all.indexOf(name)),
  };
}

function writesState({ states }: TraceFile, name: string): boolean {
  return states.some((state) => state.name === name && state.next !== state.slot);
}

/** States have slots of their own. */
function readsState({ states, instructions, outputs }: TraceFile, name: string): boolean {
  const slot = states.find((state) => state.name === name)?.slot;
  if (slot === undefined) return false;
  const read = [
    ...outputs.map((output) => output.slot),
    ...states.flatMap((state) => (state.name === name ? [] : [state.next])),
    ...instructions.flatMap(({ args }) => slotsRead(args)),
  ];
  return read.includes(slot);
}
