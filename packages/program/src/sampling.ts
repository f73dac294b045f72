/** The sizes at which a method is traced. */
import { randomInt } from 'node:crypto';
import { allows, type Method } from './method.js';
import type { Dimension } from './graph.js';
import type { Sizes } from './sizes.js';

/** Numbers below 1 that are the same in every run (Mulberry32, Tommy Ettinger 2017). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function ends({ min, max, multipleOf = 1 }: Dimension): [number, number] {
  return [Math.ceil(min / multipleOf), Math.floor(max / multipleOf)];
}

/** Small values, where residues and limits show, and the largest one. */
function values(dimension: Dimension): number[] {
  const [first, last] = ends(dimension);
  const steps = [0, 1, 2, 3, 5, 7, 10, 13].map((step) => first + step);
  const within = [...steps, last].filter((value) => value <= last);
  return [...new Set(within)].map((value) => value * (dimension.multipleOf ?? 1));
}

/** Of the sizes that a method is traced at, how many predictions are held against. */
export const heldOutCount = 12;

/** Sizes at which a method is traced; the last are the held-out ones. */
export function traceSizes(method: Method): Sizes[] {
  return samples(method, heldOutCount);
}

/** A size that differs from run to run, and from those of `traceSizes` where the method has others. */
export function untracedSize(method: Method): Sizes {
  const traced = new Set(traceSizes(method).map((sizes) => JSON.stringify(sizes)));
  const drawn = samples(method, 2 * heldOutCount, randomInt(2 ** 31));
  return drawn.findLast((sizes) => !traced.has(JSON.stringify(sizes))) ?? drawn[0];
}

/**
 * Different sizes, among them the smallest, and each dimension at its largest. Dimensions vary
 * independently of one another.
 *
 * @param count how many more to draw at random from all that the method allows, so that none of them leaves
 *   out a wide range
 */
function samples(method: Method, count: number, seed = 1): Sizes[] {
  const dimensions = Object.entries(method.dimensions ?? {});
  const random = generator(seed);
  const found = new Map<string, Sizes>();
  const add = (value: (dimension: Dimension, name: string) => number): void => {
    const sizes = Object.fromEntries(
      dimensions.map(([name, dimension]) => [name, value(dimension, name)]),
    );
    if (allows(method, sizes)) found.set(JSON.stringify(sizes), sizes);
  };
  const choose = (from: readonly number[]): number => from[Math.floor(random() * from.length)];
  const smallest = (dimension: Dimension): number => values(dimension)[0];
  add(smallest);
  for (const [name] of dimensions) {
    for (const value of dimensions.length > 0 ? values(method.dimensions![name]) : []) {
      add((dimension, other) => (other === name ? value : smallest(dimension)));
      add((dimension, other) => (other === name ? value : choose(values(dimension))));
    }
  }
  const strata = dimensions.map(() => shuffled(count, random));
  for (let i = 0; i < count; i++) {
    add((dimension, name) => {
      const [first, last] = ends(dimension);
      const stratum = strata[dimensions.findIndex(([each]) => each === name)][i];
      // Small sizes as often as large ones.
      const share = (stratum + random()) / count;
      const span = Math.floor(Math.exp(share * Math.log(last - first + 1)));
      return (first + Math.min(span, last - first)) * (dimension.multipleOf ?? 1);
    });
  }
  return [...found.values()];
}

/** The numbers below count, each once (Fisher and Yates). */
function shuffled(count: number, random: () => number): number[] {
  const numbers = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [numbers[i], numbers[other]] = [numbers[other], numbers[i]];
  }
  return numbers;
}
