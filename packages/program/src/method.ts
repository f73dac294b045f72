/** What a model says about a method that is to be exported. */
import type { Dtype, MxArray } from '@mlx-runners/mlx-core';
import { ProgramError } from '@mlx-runners/mlx-core/errors';
import type { Dimension, Limit } from './graph.js';
import { evaluateSize, type Sizes } from './sizes.js';

export type Arrays = Record<string, MxArray>;

export interface Method {
  /**
   * The dimensions that differ between calls. Those that no input's shape has are integers which the
   * caller gives, such as the position of a step.
   */
  dimensions?: Readonly<Record<string, Dimension>>;
  /** What holds between dimensions: `{ size: ['+', 'past', 'T'], max: 448 }`. */
  limits?: readonly Limit[];
  inputs: Readonly<Record<string, { dtype: Dtype; shape: readonly (number | string)[] }>>;
  /** What a session keeps from call to call, zeros at first. */
  states?: Readonly<Record<string, { dtype: Dtype; shape: readonly number[] }>>;
  /**
   * Computes named outputs from arrays and dimensions. A new value of a state is assigned to its name in
   * `states`.
   */
  run(inputs: Readonly<Arrays>, sizes: Sizes, states: Arrays): Arrays;
}

/** The traces of a method that may be one or have several. */
export function tracesOf(method: Method | readonly Method[]): readonly Method[] {
  return 'run' in method ? [method] : method;
}

/** Whether a method may be called with these dimensions. */
export function allows(method: Method, sizes: Sizes): boolean {
  return (method.limits ?? []).every(({ size, max }) => evaluateSize(size, sizes) <= max);
}

/** @throws ProgramError for dimensions and shapes that make no sense */
export function checkMethod(name: string, method: Method): void {
  const dimensions = method.dimensions ?? {};
  for (const [dimension, { min, max, multipleOf = 1 }] of Object.entries(dimensions)) {
    const whole = [min, max, multipleOf].every((each) => Number.isSafeInteger(each) && each >= 0);
    if (!whole || min > max || multipleOf < 1 || max > 2 ** 31 - 1) {
      throw new ProgramError(
        `${name}: the dimension ${dimension} has to have whole numbers 0 ≤ min ≤ max < 2³¹ and multipleOf ≥ 1.`,
      );
    }
    if (Math.floor(max / multipleOf) * multipleOf < min) {
      throw new ProgramError(
        `${name}: no multiple of ${multipleOf} lies between ${min} and ${max}, the ends of ${dimension}.`,
      );
    }
  }
  for (const [input, { shape }] of Object.entries(method.inputs)) {
    for (const size of shape) {
      if (typeof size === 'string' && !Object.hasOwn(dimensions, size)) {
        throw new ProgramError(`${name}: the input ${input} has the undeclared dimension ${size}.`);
      }
    }
  }
}
