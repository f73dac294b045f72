/** From a method to its graph: traced at several sizes, fitted, and traced again where that could be wrong. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { MxArray } from '@mlx-runners/mlx-core';
import {
  MemoryError,
  MlxRunnersError,
  ProgramError,
  throwIfAborted,
} from '@mlx-runners/mlx-core/errors';
import { siteOf } from './call-site.js';
import { checkMethod } from './check-method.js';
import { criticalSizes } from './critical-sizes.js';
import { Domain } from './domain.js';
import { fitTraces, misprediction } from './fit.js';
import type { Graph } from './graph.js';
import type { Method } from './method.js';
import { familiarSizes, fewTraceSizes, traceSizes } from './sampling.js';
import { evaluateSize, type Sizes } from './sizes.js';
import { disposeMade, trace, type Constant, type Trace } from './trace.js';

export interface TracedMethod {
  name: string;
  graph: Graph;
  constants: ReadonlyMap<string, Constant>;
}

export interface TraceOptions {
  /** Of the model's parameters. */
  names?: ReadonlyMap<MxArray, string>;
  signal?: AbortSignal;
  /** False: at a few sizes, for a method that is known to be right. */
  thorough?: boolean;
}

// Each rules out at least one expression that fits what came before.
const mostRounds = 24;

/**
 * Traces a method at sizes of many residues and fits what differs. Then it is traced where the
 * expressions found could be wrong (`criticalSizes`), and fitted anew, until all sizes come out as
 * predicted.
 *
 * @throws ProgramError that names op, argument and source line of what can't be fitted; what the model
 *   throws itself, with the size among its causes
 */
export async function traceMethod(
  name: string,
  method: Method,
  options: TraceOptions = {},
): Promise<TracedMethod> {
  checkMethod(name, method);
  const domain = new Domain(method);
  const tracer = new Tracer(name, method, options);
  try {
    if (options.thorough ?? true) {
      await tracer.traceAt(traceSizes(domain));
      tracer.checkRepeatable();
      await tracer.traceAt(familiarSizes(domain, tracer.first.graph));
    } else {
      await tracer.traceAt(fewTraceSizes(domain));
    }
    for (let round = 0; ; round++) {
      const graph = explained(name, () => fitTraces(method, tracer.traces));
      const traced = tracer.traces.map(({ sizes }) => sizes);
      const others = await tracer.traceAt(criticalSizes(graph, traced, domain, round > 0));
      const wrong = others.find((other) => mispredicted(graph, other) !== undefined);
      if (!wrong) return { name, graph, constants: tracer.first.constants };
      if (round < mostRounds) continue;
      throw new ProgramError(
        `${name}: ${mispredicted(graph, wrong)} is ambiguous: what fits at ${traced.length} sizes is ` +
          `wrong at ${JSON.stringify(wrong.sizes)}.`,
      );
    }
  } catch (error) {
    tracer.dispose();
    throw error;
  }
}

function mispredicted(graph: Graph, other: Trace): string | undefined {
  return misprediction(graph, other, (size) => evaluateSize(size, other.sizes));
}

class Tracer {
  /** The first is what others are compared with. */
  readonly traces: Trace[] = [];
  readonly #name: string;
  readonly #method: Method;
  readonly #options: TraceOptions;
  readonly #tried = new Set<string>();

  constructor(name: string, method: Method, options: TraceOptions) {
    this.#name = name;
    this.#method = method;
    this.#options = options;
  }

  get first(): Trace {
    if (this.traces.length > 0) return this.traces[0];
    throw new ProgramError(`${this.#name}: no sizes fit its dimensions and limits.`);
  }

  /** Traces at sizes that weren't tried before, and gives what is new. */
  async traceAt(points: readonly Sizes[]): Promise<Trace[]> {
    const before = this.traces.length;
    for (const sizes of points) {
      const key = JSON.stringify(sizes);
      if (this.#tried.has(key)) continue;
      this.#tried.add(key);
      // The process hears signals between two traces.
      await nextTurn();
      throwIfAborted(this.#options.signal);
      this.#trace(sizes);
    }
    return this.traces.slice(before);
  }

  /** @throws ProgramError when the method does other things the next time, such as with random numbers */
  checkRepeatable(): void {
    const { sizes, graph } = this.first;
    const again = explained(`${this.#name}, run twice at ${JSON.stringify(sizes)}`, () =>
      trace(this.#method, sizes, this.#options.names, this.first),
    );
    const differs = misprediction(graph, again, Number);
    if (differs === undefined) return;
    throw new ProgramError(
      `${this.#name}: ${differs} is another when the method is run again at ${JSON.stringify(sizes)}. ` +
        'A method has to do the same each time: give what differs as an input.',
    );
  }

  #trace(sizes: Sizes): void {
    const what = `${this.#name} at ${JSON.stringify(sizes)}`;
    try {
      this.traces.push(trace(this.#method, sizes, this.#options.names, this.traces.at(0)));
    } catch (error) {
      // What this machine has no memory for, though nothing is computed, another one may run.
      if (error instanceof MemoryError && this.traces.length > 0) return;
      explained(what, () => {
        throw error;
      });
    }
  }

  dispose(): void {
    if (this.traces.length > 0) disposeMade(this.first.constants);
  }
}

/** Puts what was traced before the messages of our own errors, and among the causes of others. */
function explained<T>(what: string, fn: () => T): T {
  try {
    return fn();
  } catch (cause) {
    if (cause instanceof MlxRunnersError) {
      // Those of tracing itself say where already.
      const site = cause instanceof ProgramError ? undefined : siteOf(cause);
      const place = site === undefined ? what : `${what}, at ${site}`;
      throw new ProgramError(`${place}: ${cause.message}`, { cause });
    }
    const context = `It was thrown while ${what} was traced.`;
    if (!(cause instanceof Error)) throw new ProgramError(context, { cause });
    const root = rootOf(cause);
    if (Object.isExtensible(root)) root.cause ??= new ProgramError(context);
    throw cause;
  }
}

/** The last of an error's causes. */
function rootOf(error: Error): Error {
  const seen = new Set<Error>();
  let root = error;
  while (root.cause instanceof Error && !seen.has(root)) {
    seen.add(root);
    root = root.cause;
  }
  return root;
}
