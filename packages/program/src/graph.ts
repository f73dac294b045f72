/**
 * A method as passes see it: instructions on values, each written once. Values are numbers; what is
 * known of them stands in `types`. What is written to disk (`format.ts`) has slots instead, which are
 * used again.
 */
import type { Dtype } from '@mlx-runners/mlx-core';
import type { Size } from './sizes.js';

export interface ArrayType {
  readonly dtype: Dtype;
  readonly shape: readonly Size[];
}

/**
 * An argument of an op. Arrays are named by their value; integers that depend on the dimensions are
 * `{ size }`; texts are dtypes or names; `null` leaves the op's default.
 */
export type Argument =
  | null
  | number
  | boolean
  | string
  | { readonly size: Size }
  | { readonly array: number }
  | { readonly arrays: readonly number[] }
  | { readonly list: readonly Size[] };

export interface Instruction {
  readonly op: string;
  readonly args: readonly Argument[];
  readonly results: readonly number[];
  /** File and line of the model: `@mlx-runners/whisper/src/model.ts:71`. */
  readonly source: string;
}

/** A dimension that differs between calls, and the values it may take. */
export interface Dimension {
  readonly min: number;
  readonly max: number;
  /** Every value is a multiple of this: expressions are fitted at such values only, and others refused. */
  readonly multipleOf?: number;
}

/** What has to hold between dimensions: `size` is at most `max`. */
export interface Limit {
  readonly size: Size;
  readonly max: number;
}

export interface NamedValue {
  readonly name: string;
  readonly value: number;
}

/** An array that a session keeps from call to call: `value` before it, `next` after it. */
export interface StateValue extends NamedValue {
  readonly next: number;
}

export interface Graph {
  readonly dimensions: Readonly<Record<string, Dimension>>;
  readonly limits: readonly Limit[];
  readonly inputs: readonly NamedValue[];
  readonly states: readonly StateValue[];
  readonly constants: readonly NamedValue[];
  readonly outputs: readonly NamedValue[];
  readonly instructions: readonly Instruction[];
  /** By value. */
  readonly types: ReadonlyMap<number, ArrayType>;
}

/** The number of a new value. */
export function nextValue({ types }: Graph): number {
  let next = 0;
  for (const value of types.keys()) next = Math.max(next, value + 1);
  return next;
}

/** The value that an argument names; undefined when it is no array. */
export function operand(arg: Argument | undefined): number | undefined {
  return typeof arg === 'object' && arg !== null && 'array' in arg ? arg.array : undefined;
}

/** The values that an instruction reads, in order. */
export function operands({ args }: Pick<Instruction, 'args'>): number[] {
  const values: number[] = [];
  for (const arg of args) {
    if (typeof arg !== 'object' || arg === null) continue;
    if ('array' in arg) values.push(arg.array);
    else if ('arrays' in arg) values.push(...arg.arrays);
  }
  return values;
}

/** How often each value is read, by instructions and as a result of the method. */
export function countUses(graph: Graph): Map<number, number> {
  const uses = new Map<number, number>();
  const count = (value: number): void => void uses.set(value, (uses.get(value) ?? 0) + 1);
  for (const instruction of graph.instructions) operands(instruction).forEach(count);
  for (const { value } of graph.outputs) count(value);
  for (const { next } of graph.states) count(next);
  return uses;
}

/** The same argument with other values. */
export function renamed(arg: Argument, to: (value: number) => number): Argument {
  if (typeof arg !== 'object' || arg === null) return arg;
  if ('array' in arg) return { array: to(arg.array) };
  return 'arrays' in arg ? { arrays: arg.arrays.map(to) } : arg;
}

/** The same graph with other names for what is read; results stay what they are. */
export function withValuesReplaced(graph: Graph, to: (value: number) => number): Graph {
  return {
    ...graph,
    instructions: graph.instructions.map((instruction) => ({
      ...instruction,
      args: instruction.args.map((arg) => renamed(arg, to)),
    })),
    outputs: graph.outputs.map(({ name, value }) => ({ name, value: to(value) })),
    states: graph.states.map((state) => ({ ...state, next: to(state.next) })),
  };
}
