/** The sizes at which a method is traced. */
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

/**
 * Different sizes, among them the smallest, and each dimension at its largest. Dimensions vary
 * independently of one another.
 *
 * @param count how many more to draw at random from all that the method allows
 */
export function samples(method: Method, count: number): Sizes[] {
  const dimensions = Object.entries(method.dimensions ?? {});
  const random = generator(1);
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
  for (let i = 0; i < count; i++) {
    add((dimension) => {
      const [first, last] = ends(dimension);
      // Small sizes as often as large ones.
      const span = Math.floor(Math.exp(random() * Math.log(last - first + 1)));
      return (first + Math.min(span, last - first)) * (dimension.multipleOf ?? 1);
    });
  }
  return [...found.values()];
}
