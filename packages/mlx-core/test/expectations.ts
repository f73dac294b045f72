/** What tests say about arrays: shape, dtype and values at once. */
import type { Dtype, MxArray } from '@mlx-runners/mlx-core';
import { expect } from 'vitest';

export type Nested = number | boolean | readonly Nested[];

function shapeOf(nested: Nested): number[] {
  if (!Array.isArray(nested)) return [];
  const list = nested as readonly Nested[];
  return [list.length, ...(list.length > 0 ? shapeOf(list[0]) : [])];
}

function numbersOf(nested: Nested): number[] {
  if (Array.isArray(nested)) return (nested as readonly Nested[]).flatMap(numbersOf);
  return [Number(nested)];
}

/** Largest distance, relative to the expected number where that is above 1; NaN and ∞ must be met. */
function farthest(actual: readonly number[], expected: readonly number[]): number {
  return expected.reduce((most, wanted, i) => {
    if (Object.is(actual[i], wanted) || actual[i] === wanted) return most;
    const distance = Math.abs(actual[i] - wanted) / Math.max(1, Math.abs(wanted));
    return Number.isNaN(distance) ? Infinity : Math.max(most, distance);
  }, 0);
}

export function expectNumbers(
  actual: ArrayLike<number | bigint>,
  expected: ArrayLike<number>,
  tolerance = 1e-6,
): void {
  const [got, wanted] = [Array.from(actual, Number), Array.from(expected)];
  expect(got.length).toBe(wanted.length);
  if (farthest(got, wanted) > tolerance) expect(got).toEqual(wanted);
}

/** Nested lists give the shape too; the innermost pairs of complex numbers are no axis. */
export function expectArray(
  array: MxArray,
  expected: Nested,
  { dtype, tolerance }: { dtype?: Dtype; tolerance?: number } = {},
): void {
  const shape = shapeOf(expected);
  expect(array.shape).toEqual(array.dtype === 'complex64' ? shape.slice(0, -1) : shape);
  if (dtype) expect(array.dtype).toBe(dtype);
  expectNumbers(array.dataSync(), numbersOf(expected), tolerance);
}

/** Runs what has to throw and returns the error. */
export function thrown(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    return error as Error;
  }
  throw new Error('Nothing was thrown.');
}
