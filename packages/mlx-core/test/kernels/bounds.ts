/** Products in double precision, and how far from them those of the kernels may be. */
import { expect } from 'vitest';
import type { Plain } from './reference.js';

export interface Weights {
  readonly data: ArrayLike<number>;
  readonly shape: readonly number[];
}

/** x · wᵀ, and the sums of the products' sizes, which rounding errors are proportional to. */
export function product(x: Plain, w: Weights) {
  const [columns, depth] = w.shape;
  const values: number[] = [];
  const sizes: number[] = [];
  for (let m = 0; m < x.data.length / depth; m++) {
    for (let n = 0; n < columns; n++) {
      let [value, size] = [0, 0];
      for (let k = 0; k < depth; k++) {
        const part = x.data[m * depth + k] * w.data[n * depth + k];
        value += part;
        size += Math.abs(part);
      }
      values.push(value);
      sizes.push(size);
    }
  }
  return { values, sizes };
}

/** How far `fast` may be off: half a step of 1/127 of the group's largest |x|, for every weight. */
export function fastBounds(x: Plain, w: Weights): number[] {
  const [columns, depth] = w.shape;
  const bounds: number[] = [];
  for (let m = 0; m < x.data.length / depth; m++) {
    for (let n = 0; n < columns; n++) {
      let bound = 0;
      for (let group = 0; group < depth; group += 32) {
        let [largest, weights] = [0, 0];
        for (let k = group; k < group + 32; k++) {
          largest = Math.max(largest, Math.abs(x.data[m * depth + k]));
          weights += Math.abs(w.data[n * depth + k]);
        }
        bound += (largest / 254) * weights;
      }
      bounds.push(bound);
    }
  }
  return bounds;
}

export function expectWithin(
  got: ArrayLike<number | bigint>,
  expected: readonly number[],
  bounds: readonly number[],
): void {
  const actual = Array.from(got, Number);
  expect(actual.length).toBe(expected.length);
  const outside = actual.findIndex((value, i) => !(Math.abs(value - expected[i]) <= bounds[i]));
  if (outside < 0) return;
  expect.fail(
    `${actual[outside]} at ${outside} is not within ${bounds[outside]} of ${expected[outside]}`,
  );
}
