/** What a model says about a method that is to be exported. */
import type { Dtype, MxArray } from '@mlx-runners/mlx-core';
import type { Dimension, Limit } from './graph.js';
import { evaluateSize, type Size, type Sizes } from './sizes.js';

export type Arrays = Record<string, MxArray>;

export interface MethodInput {
  dtype: Dtype;
  shape: readonly (number | string)[];
  /** Integers are at least 0 and less than this, such as the rows of a table; export-check needs to know. */
  below?: Size;
}

export interface Method {
  /**
   * The dimensions that differ between calls, and their ranges. Those in an input's shape are read from it;
   * the others are integers which the caller gives, such as the position of a step.
   */
  dimensions?: Readonly<Record<string, Dimension>>;
  /** What holds between dimensions in every call: `{ size: ['+', 'past', 'T'], max: 448 }`. */
  limits?: readonly Limit[];
  inputs: Readonly<Record<string, MethodInput>>;
  /**
   * What a session keeps from call to call, zeros at first. Methods that have a state of the same name share
   * it. After an error or an abort the states are those of before the call.
   */
  states?: Readonly<Record<string, { dtype: Dtype; shape: readonly number[] }>>;
  /**
   * Computes named outputs from arrays and dimensions. A new value of a state is assigned to its name in
   * `states`.
   */
  run(inputs: Readonly<Arrays>, sizes: Sizes, states: Arrays): Arrays;
}

/** The traces of a method that may be one or have several. */
export function tracesOf(method: Method | readonly Method[]): readonly Method[] {
  return Array.isArray(method) ? (method as readonly Method[]) : [method as Method];
}

/** Whether a method may be called with these dimensions. */
export function allows(method: Method, sizes: Sizes): boolean {
  return (method.limits ?? []).every(({ size, max }) => evaluateSize(size, sizes) <= max);
}
