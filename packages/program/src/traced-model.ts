/** A model as programs: every method traced, what the passes have made of it, and its constants. */
import { ProgramError, type MxArray } from '@mlx-runners/mlx-core';
import { checkedTraces, checkSameOutputs } from './check-method.js';
import { ConstantStore } from './constants.js';
import type { ExportDescription } from './description.js';
import type { Manifest, ProgramFile } from './format.js';
import type { Graph } from './graph.js';
import { tracesOf } from './method.js';
import { removeDeadCode } from './passes/dead-code.js';
import { mergeConstants } from './passes/merge-constants.js';
import { allPasses, passesInMemory } from './passes/optimise.js';
import type { Pass } from './passes/pass.js';
import { quantiseWeights } from './passes/quantise-weights.js';
import { packingOf } from './quantisation.js';
import { checkQuantised } from './quantised-programs.js';
import { serialise } from './serialise.js';
import { traceMethod } from './trace-method.js';

export interface TracedModel {
  programs: readonly ProgramFile[];
  /** What the programs use, by name; computed. */
  constants: ReadonlyMap<string, MxArray>;
  states: Manifest['states'];
}

export interface TraceModelOptions {
  signal?: AbortSignal;
  /** For a program that is not written: quickly, and of the very arrays that the model has. */
  inMemory?: boolean;
}

// Smaller ones are told apart by their contents, also in memory.
const smallBytes = 64 * 1024;

/** @throws ProgramError that names op, argument and source line of what can't be traced */
export async function traceModel(
  description: ExportDescription,
  options: TraceModelOptions,
): Promise<TracedModel> {
  const store = new ConstantStore(options.inMemory ? smallBytes : Infinity);
  const programs = await tracedPrograms(description, store, options);
  const constants = new Map(namesOfConstants(programs).map((name) => [name, store.get(name)]));
  return { programs, constants, states: statesOf(description) };
}

async function tracedPrograms(
  description: ExportDescription,
  store: ConstantStore,
  { signal, inMemory = false }: TraceModelOptions,
): Promise<ProgramFile[]> {
  // Of tied parameters the first name counts.
  const named = [...description.parameters].reverse();
  const names = new Map(named.map(([name, array]) => [array, name]));
  const options = { names, signal, thorough: !inMemory };
  const programs: ProgramFile[] = [];
  for (const [name, method] of Object.entries(description.methods)) {
    const passes = passesOf(description, name, inMemory ? passesInMemory : allPasses);
    const graphs: Graph[] = [];
    for (const each of checkedTraces(name, method)) {
      const { graph, constants } = await traceMethod(name, each, options);
      graphs.push(
        passes.reduce((result, pass) => pass(result, store), store.adopt(graph, constants)),
      );
    }
    checkSameOutputs(name, graphs);
    programs.push(serialise(name, graphs));
  }
  checkQuantised(description, programs);
  return programs;
}

function passesOf(
  description: ExportDescription,
  method: string,
  usual: readonly Pass[],
): readonly Pass[] {
  const { passes = usual, qlinear, qlinearEncoder, encoderMethods, qembedding } = description;
  const isEncoder = encoderMethods?.includes(method) ?? false;
  const ofLinear = isEncoder ? (qlinearEncoder ?? qlinear) : qlinear;
  if (!ofLinear && !qembedding) return passes;
  const packings = {
    linear: ofLinear && packingOf(ofLinear),
    embedding: qembedding && packingOf(qembedding),
  };
  // The weights that were quantised are not needed any more.
  return [...passes, quantiseWeights(packings), mergeConstants, removeDeadCode];
}

function namesOfConstants(programs: readonly ProgramFile[]): string[] {
  const traces = programs.flatMap((program) => program.traces);
  return [...new Set(traces.flatMap(({ constants }) => constants.map(({ name }) => name)))];
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
