/** Tracing: running a method once, at one size, while every op that it calls is written down. */
import { MxArray, mx, type Dtype } from '@mlx-runners/mlx-core';
import { nearestName, ProgramError, quoted } from '@mlx-runners/mlx-core/errors';
import {
  isScoped,
  recordCalls,
  type CallRecorder,
  type OpRow,
} from '@mlx-runners/mlx-core/program';
import { callSite } from './call-site.js';
import { checkName } from './check-method.js';
import { at, checkSameCalls, checkSameResults, sameCall, sameContent } from './compare.js';
import type { Argument, ArrayType, Graph, Instruction, NamedValue } from './graph.js';
import type { Arrays, Method } from './method.js';
import type { Sizes } from './sizes.js';

/** An array that the method uses but does not compute. */
export interface Constant {
  array: MxArray;
  /** Where it was first used. */
  source: string;
  /** Whether the method made it, as a table in JavaScript. */
  made: boolean;
}

/** A graph of one size, in which all sizes are numbers. */
export interface Trace {
  sizes: Sizes;
  graph: Graph;
  /** By name. */
  constants: ReadonlyMap<string, Constant>;
}

const noNames: ReadonlyMap<MxArray, string> = new Map();

/**
 * Runs the method and records it. Nothing is computed: its inputs are arrays without values.
 *
 * @param names of arrays that are parameters of the model
 * @param first a trace of the same method, from which this one may differ in nothing but numbers; it then
 *   has the constants of the first
 * @throws ProgramError when it reads a value, gives what is not an array, or differs from the first
 */
export function trace(method: Method, sizes: Sizes, names = noNames, first?: Trace): Trace {
  const recorder = new Recorder(names, first);
  try {
    let traced: Trace | undefined;
    // So that a trace leaves only its constants. What it gives holds no arrays beside these, and is large: tidy
    // would look through all of it.
    mx.tidy(() => {
      const inputs = placeholders(method.inputs, sizes);
      const states = placeholders(method.states ?? {}, sizes);
      const given = { inputs: recorder.declare(inputs), states: recorder.declare(states) };
      const results: unknown = recordCalls(recorder, () => method.run(inputs, sizes, states));
      // What a promise was refused for is said here, and must not come up again.
      if (results instanceof Promise) results.catch(() => undefined);
      recorder.checkReads();
      const graph: Graph = {
        dimensions: method.dimensions ?? {},
        limits: method.limits ?? [],
        inputs: given.inputs,
        states: statesOf(recorder, method, given.states, states),
        outputs: outputsOf(recorder, results),
        constants: recorder.constants(),
        instructions: recorder.instructions,
        types: recorder.types,
      };
      traced = { sizes, graph, constants: first?.constants ?? recorder.constantArrays };
      if (first) {
        if (!recorder.repeatsFirst()) checkSameCalls(first, traced);
        checkSameResults(first, traced);
        recorder.checkConstants(first, sizes);
      }
    });
    return traced!;
  } catch (error) {
    if (!first) disposeMade(recorder.constantArrays);
    throw error;
  }
}

/** Frees the constants that the method made, which nothing else knows of. */
export function disposeMade(constants: ReadonlyMap<string, Constant>): void {
  for (const { array, made } of constants.values()) if (made) array.dispose();
}

function placeholders(declared: Method['inputs'], sizes: Sizes): Arrays {
  return Object.fromEntries(
    Object.entries(declared).map(([name, { dtype, shape }]) => {
      const concrete = shape.map((size) => (typeof size === 'string' ? sizes[size] : size));
      return [name, mx.zeros(concrete, dtype)];
    }),
  );
}

/** The states' next values, which have to be of the declared names, dtypes and shapes. */
function statesOf(
  recorder: Recorder,
  { states: declared = {} }: Method,
  before: readonly NamedValue[],
  after: Arrays,
): Graph['states'] {
  const unknown = Object.keys(after).find((name) => !Object.hasOwn(declared, name));
  if (unknown !== undefined) {
    const nearest = nearestName(unknown, Object.keys(declared));
    const advice = nearest === undefined ? '' : ` Is it ${quoted(nearest)}?`;
    throw new ProgramError(
      `The method assigns to a state that it does not declare: ${quoted(unknown)}.${advice}`,
    );
  }
  return before.map(({ name, value }) => {
    if (!Object.hasOwn(after, name)) {
      throw new ProgramError(`The method deletes the state ${name}; states keep their shapes.`);
    }
    const next = recorder.resultNamed(`state ${name}`, after[name]);
    const [was, is] = [value, next].map((each) => recorder.types.get(each)!);
    if (was.dtype !== is.dtype || was.shape.join() !== is.shape.join()) {
      const shown = ({ dtype, shape }: ArrayType): string => `${dtype} [${shape.join(', ')}]`;
      throw new ProgramError(
        `The state ${name} is declared as ${shown(was)}, and is given ${shown(is)}.`,
      );
    }
    return { name, value, next };
  });
}

function outputsOf(recorder: Recorder, results: unknown): NamedValue[] {
  const isObject = typeof results === 'object' && results !== null && !Array.isArray(results);
  if (!isObject || results instanceof MxArray || results instanceof Promise) {
    throw new ProgramError(
      'A method has to return an object of arrays, not a promise, a list, one array or nothing.',
    );
  }
  return Object.entries(results).map(([name, array]) => {
    checkName('an output', name);
    return { name, value: recorder.resultNamed(`output ${name}`, array) };
  });
}

class Recorder implements CallRecorder {
  readonly instructions: Instruction[] = [];
  readonly types = new Map<number, ArrayType>();
  readonly constantArrays = new Map<string, Constant>();
  readonly #constantValues: NamedValue[] = [];
  readonly #values = new Map<MxArray, number>();
  readonly #names: ReadonlyMap<MxArray, string>;
  readonly #first: Trace | undefined;
  /** The calls of the first trace, until one differs. */
  #expected: readonly Instruction[] | undefined;
  #site: string | undefined;
  #unnamed = 0;
  #parameterNames: Set<string> | undefined;
  #refused: ProgramError | undefined;
  #different: string | undefined;

  constructor(names: ReadonlyMap<MxArray, string>, first: Trace | undefined) {
    this.#names = names;
    this.#first = first;
    this.#expected = first?.graph.instructions;
  }

  declare(arrays: Arrays): NamedValue[] {
    return Object.entries(arrays).map(([name, array]) => ({ name, value: this.#add(array) }));
  }

  constants(): NamedValue[] {
    return this.#constantValues;
  }

  called(row: OpRow, args: readonly unknown[], results: readonly MxArray[]): void {
    this.#site = undefined;
    const given = args.map((value) => this.#argument(value));
    while (given.at(-1) === null) given.pop();
    const call = {
      op: row.name,
      args: given,
      results: results.map((array) => this.#add(array)),
    };
    this.instructions.push({ ...call, source: this.#sourceOf(call) });
  }

  /** Whether all calls are those of the first trace but for numbers. */
  repeatsFirst(): boolean {
    return this.#expected?.length === this.instructions.length;
  }

  /** Finding a line takes longer than the call: it is that of the first trace, as long as both do the same. */
  #sourceOf(call: Omit<Instruction, 'source'>): string {
    if (this.#expected) {
      const expected = this.#expected[this.instructions.length] as Instruction | undefined;
      if (expected && sameCall(expected, call)) return expected.source;
      this.#expected = undefined;
    }
    return this.#callSite();
  }

  /** Of the call that is written down now. */
  #callSite(): string {
    return (this.#site ??= callSite());
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

  /** @throws ProgramError for a constant that has other values than in the first trace */
  checkConstants(first: Trace, sizes: Sizes): void {
    if (this.#different === undefined) return;
    const source = first.constants.get(this.#different)?.source;
    throw new ProgramError(
      `${this.#different}, made in JavaScript and first used at ${source}, has other values at ` +
        `${at(first.sizes)} than at ${at(sizes)}. Compute it with ops (mx.arange), or make it of ` +
        'the largest size and slice it.',
    );
  }

  /** @param what for messages: `output y` */
  resultNamed(what: string, array: unknown): number {
    this.#site = undefined;
    if (array instanceof MxArray) return this.#valueOf(array);
    throw new ProgramError(`The ${what} has to be an MxArray, not ${quoted(array)}.`);
  }

  #add(array: MxArray): number {
    const value = this.types.size;
    this.#values.set(array, value);
    this.types.set(value, { dtype: array.dtype, shape: array.shape });
    return value;
  }

  #valueOf(array: MxArray): number {
    const known = this.#values.get(array);
    if (known !== undefined) return known;
    const name = this.#names.get(array) ?? this.#unusedName();
    const value = this.#add(array);
    this.#constantValues.push({ name, value });
    if (this.#first) this.#compare(name, array, this.#first);
    else {
      const made = isScoped(array);
      // It is read when the trace is over, when the scope that it was made in is gone.
      this.constantArrays.set(name, { array: mx.keep(array), source: this.#callSite(), made });
    }
    return value;
  }

  /** The same in every trace, and no parameter's. */
  #unusedName(): string {
    this.#parameterNames ??= new Set(this.#names.values());
    for (;;) {
      const name = `constant.${this.#unnamed++}`;
      if (!this.#parameterNames.has(name)) return name;
    }
  }

  /** Now, since the scope that it was made in may be gone when the trace is over. */
  #compare(name: string, array: MxArray, { constants }: Trace): void {
    const first = constants.get(name);
    if (!first || !sameContent(first.array, array)) this.#different ??= name;
  }

  #argument(value: unknown): Argument {
    if (value instanceof MxArray) return { array: this.#valueOf(value) };
    if (!Array.isArray(value)) return (value ?? null) as Dtype | number | boolean | null;
    const list = value as readonly unknown[];
    if (list.length > 0 && list.every((each) => each instanceof MxArray)) {
      return { arrays: list.map((array) => this.#valueOf(array)) };
    }
    return { list: list as readonly number[] };
  }
}
