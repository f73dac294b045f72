/** Tracing: running a method once, at one size, while every op that it calls is written down. */
import { MxArray, mx, type Dtype } from '@mlx-runners/mlx-core';
import { ProgramError } from '@mlx-runners/mlx-core/errors';
import { recordCalls, type CallRecorder, type OpRow } from '@mlx-runners/mlx-core/program';
import { callSite } from './call-site.js';
import type { Argument, ArrayType, Graph, Instruction, NamedValue } from './graph.js';
import type { Arrays, Method } from './method.js';
import type { Sizes } from './sizes.js';

/** An array that the method uses but does not compute. */
export interface Constant {
  array: MxArray;
  /** Where it was first used. */
  source: string;
}

/** A graph of one size, in which all sizes are numbers. */
export interface Trace {
  sizes: Sizes;
  graph: Graph;
  /** By name. */
  constants: Map<string, Constant>;
}

const noNames: ReadonlyMap<MxArray, string> = new Map();

/**
 * Runs the method and records it. Nothing is computed: its inputs are arrays without values.
 *
 * @param names of arrays that are parameters of the model
 * @throws ProgramError when it reads a value, or gives what is not an array
 */
export function trace(method: Method, sizes: Sizes, names = noNames): Trace {
  // Inside tidy, so that a trace leaves only the constants.
  return mx.tidy(() => {
    const recorder = new Recorder(names);
    const inputs = placeholders(method.inputs, sizes);
    const states = placeholders(method.states ?? {}, sizes);
    const inputValues = recorder.declare(inputs);
    const stateValues = recorder.declare(states);
    const results: unknown = recordCalls(recorder, () => method.run(inputs, sizes, states));
    recorder.checkReads();
    const graph: Graph = {
      dimensions: method.dimensions ?? {},
      limits: method.limits ?? [],
      inputs: inputValues,
      states: stateValues.map(({ name, value }) => ({
        name,
        value,
        next: recorder.resultNamed(name, states[name]),
      })),
      outputs: outputsOf(recorder, results),
      constants: recorder.constants(),
      instructions: recorder.instructions,
      types: recorder.types,
    };
    return { sizes, graph, constants: recorder.constantArrays };
  });
}

function placeholders(declared: Method['inputs'], sizes: Sizes): Arrays {
  return Object.fromEntries(
    Object.entries(declared).map(([name, { dtype, shape }]) => {
      const concrete = shape.map((size) => (typeof size === 'string' ? sizes[size] : size));
      return [name, mx.zeros(concrete, dtype)];
    }),
  );
}

function outputsOf(recorder: Recorder, results: unknown): NamedValue[] {
  const isObject = typeof results === 'object' && results !== null;
  if (!isObject || results instanceof MxArray || 'then' in results) {
    throw new ProgramError(
      'A method has to return an object of arrays, not a promise or one array.',
    );
  }
  return Object.entries(results).map(([name, array]) => ({
    name,
    value: recorder.resultNamed(name, array),
  }));
}

class Recorder implements CallRecorder {
  readonly instructions: Instruction[] = [];
  readonly types = new Map<number, ArrayType>();
  readonly constantArrays = new Map<string, Constant>();
  readonly #constantValues: NamedValue[] = [];
  readonly #values = new Map<MxArray, number>();
  readonly #names: ReadonlyMap<MxArray, string>;
  #refused: ProgramError | undefined;

  constructor(names: ReadonlyMap<MxArray, string>) {
    this.#names = names;
  }

  declare(arrays: Arrays): NamedValue[] {
    return Object.entries(arrays).map(([name, array]) => ({ name, value: this.#add(array) }));
  }

  constants(): NamedValue[] {
    return this.#constantValues;
  }

  called(row: OpRow, args: readonly unknown[], results: readonly MxArray[]): void {
    const source = callSite();
    const given = args.map((value) => this.#argument(value, source));
    while (given.at(-1) === null) given.pop();
    this.instructions.push({
      op: row.name,
      args: given,
      results: results.map((array) => this.#add(array)),
      source,
    });
  }

  reading(use: string, array: MxArray): void {
    if (!this.#values.has(array)) return;
    this.#refused = new ProgramError(
      `${use} at ${callSite()}: a traced method can't read values, which exist only when it runs. ` +
        'Compute with arrays instead (mx.where, mx.take), or give the number as a dimension.',
    );
    throw this.#refused;
  }

  /** A refusal counts even when the method caught it. */
  checkReads(): void {
    if (this.#refused) throw this.#refused;
  }

  resultNamed(name: string, array: unknown): number {
    if (array instanceof MxArray) return this.#valueOf(array, callSite());
    throw new ProgramError(`The result ${name} has to be an MxArray.`);
  }

  #add(array: MxArray): number {
    const value = this.types.size;
    this.#values.set(array, value);
    this.types.set(value, { dtype: array.dtype, shape: array.shape });
    return value;
  }

  #valueOf(array: MxArray, source: string): number {
    const known = this.#values.get(array);
    if (known !== undefined) return known;
    const name = this.#names.get(array) ?? `constant.${this.constantArrays.size}`;
    const value = this.#add(array);
    // It is read when the trace is over, when the scope that it was made in is gone.
    this.constantArrays.set(name, { array: mx.keep(array), source });
    this.#constantValues.push({ name, value });
    return value;
  }

  #argument(value: unknown, source: string): Argument {
    if (value instanceof MxArray) return { array: this.#valueOf(value, source) };
    if (!Array.isArray(value)) return (value ?? null) as Dtype | number | boolean | null;
    const list = value as readonly unknown[];
    if (list.length > 0 && list.every((each) => each instanceof MxArray)) {
      return { arrays: list.map((array) => this.#valueOf(array, source)) };
    }
    return { list: list as readonly number[] };
  }
}
