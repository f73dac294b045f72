/** From a method to its graph: traced at several sizes, fitted, and held against sizes not seen yet. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { MxArray } from '@mlx-runners/mlx-core';
import {
  MemoryError,
  MlxRunnersError,
  ProgramError,
  throwIfAborted,
} from '@mlx-runners/mlx-core/errors';
import { checkComparable, fitTraces, misprediction } from './fit.js';
import type { Graph } from './graph.js';
import { checkMethod, type Method } from './method.js';
import { heldOutCount, traceSizes } from './sampling.js';
import { evaluateSize, type Sizes } from './sizes.js';
import { trace, type Constant, type Trace } from './trace.js';

export interface TracedMethod {
  name: string;
  graph: Graph;
  constants: ReadonlyMap<string, Constant>;
  /** A size at which nothing was fitted, for comparing numbers with the eager model. */
  heldOut: Sizes;
}

export interface TraceOptions {
  /** Of the model's parameters. */
  names?: ReadonlyMap<MxArray, string>;
  signal?: AbortSignal;
}

// Each round fits one more size than the one before, namely one that was predicted wrongly.
const mostRounds = 16;

/**
 * Traces a method at sizes of many residues and fits what differs. Sizes that were left out then are
 * predicted: one that comes out wrong joins the fitted ones, until all are right.
 *
 * @throws ProgramError that names op, argument and source line of what can't be fitted
 */
export async function traceMethod(
  name: string,
  method: Method,
  options: TraceOptions = {},
): Promise<TracedMethod> {
  checkMethod(name, method);
  const all = await tracesAt(name, method, traceSizes(method), options);
  const others = all.splice(Math.max(1, all.length - heldOutCount));
  const traces = all;
  for (let round = 0; ; round++) {
    const graph = explained(name, () => fitTraces(method, traces));
    const wrong = others.map((other) => ({ other, why: check(graph, other, traces[0]) }));
    const missed = wrong.find(({ why }) => why !== undefined);
    if (!missed) {
      const heldOut = (others.at(-1) ?? traces[0]).sizes;
      return { name, graph, constants: traces[0].constants, heldOut };
    }
    if (round === mostRounds) {
      throw new ProgramError(
        `${name}: ${missed.why} does not follow from the dimensions: what fits at ${traces.length} ` +
          `sizes is wrong at ${JSON.stringify(missed.other.sizes)}.`,
      );
    }
    traces.push(missed.other);
    others.splice(others.indexOf(missed.other), 1);
  }
}

async function tracesAt(
  name: string,
  method: Method,
  points: readonly Sizes[],
  { names, signal }: TraceOptions,
): Promise<Trace[]> {
  if (points.length === 0) {
    throw new ProgramError(`${name}: no sizes fit its dimensions and limits.`);
  }
  const traces: Trace[] = [];
  for (const sizes of points) {
    // The process hears signals between two traces.
    await nextTurn();
    throwIfAborted(signal);
    try {
      traces.push(trace(method, sizes, names));
    } catch (error) {
      // What this machine has no memory for, though nothing is computed, another one may run.
      if (error instanceof MemoryError && traces.length > 0) continue;
      explained(`${name} at ${JSON.stringify(sizes)}`, () => {
        throw error;
      });
    }
  }
  return traces;
}

/** What the graph gets wrong at a size. Throws for what no number could put right. */
function check(graph: Graph, other: Trace, first: Trace): string | undefined {
  checkComparable([first, other]);
  return misprediction(graph, other, (size) => evaluateSize(size, other.sizes));
}

function explained<T>(what: string, fn: () => T): T {
  try {
    return fn();
  } catch (cause) {
    if (!(cause instanceof MlxRunnersError)) throw cause;
    throw new ProgramError(`${what}: ${cause.message}`, { cause });
  }
}
