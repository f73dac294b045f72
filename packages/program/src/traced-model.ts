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
import { allPasses } from './passes/optimise.js';
import type { Pass } from './passes/pass.js';
import { quantiseLinears } from './passes/quantise-linears.js';
import { serialise } from './serialise.js';
import { traceMethod } from './trace-method.js';

export interface TracedModel {
  programs: readonly ProgramFile[];
  /** What the programs use, by name; computed. */
  constants: ReadonlyMap<string, MxArray>;
  states: Manifest['states'];
}

/** @throws ProgramError that names op, argument and source line of what can't be traced */
export async function traceModel(
  description: ExportDescription,
  signal: AbortSignal | undefined,
): Promise<TracedModel> {
  const store = new ConstantStore();
  const programs = await tracedPrograms(description, store, signal);
  const constants = new Map(namesOfConstants(programs).map((name) => [name, store.get(name)]));
  return { programs, constants, states: statesOf(description) };
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
  return qlinear ? [...passes, quantiseLinears(qlinear), mergeConstants, removeDeadCode] : passes;
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
