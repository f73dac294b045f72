/** The sizes that a method allows: its dimensions' values, as far as its limits let them be together. */
import type { Dimension } from './graph.js';
import { allows, type Method } from './method.js';
import { dimensionsOf, evaluateSize, type Size, type Sizes } from './sizes.js';

/** Numbers below 1. */
export type Random = () => number;

/** Numbers that are the same in every run (Mulberry32, Tommy Ettinger 2017). */
export function generator(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A dimension's values are `multipleOf` times the whole numbers from `first` to `last`. */
interface Axis {
  name: string;
  multipleOf: number;
  first: number;
  last: number;
}

function axisOf(name: string, { min, max, multipleOf = 1 }: Dimension): Axis {
  return {
    name,
    multipleOf,
    first: Math.ceil(min / multipleOf),
    last: Math.floor(max / multipleOf),
  };
}

const mostCorners = 16;
const mostStarts = 1000;
const baseCount = 12;
const mostReached = 2 ** 15;
const mostEnumerated = 2 ** 12;
const drawnReached = 500;
const smallWindow = 256;
const severalWays = 3;

export class Domain {
  readonly axes: readonly Axis[];
  /** The smallest sizes; undefined when the limits allow none. */
  readonly smallest: Sizes | undefined;
  readonly #method: Method;
  /** Allowed sizes, first the ends of all ranges where these are. */
  readonly #starts: readonly Sizes[];
  readonly #bases: readonly Sizes[];

  constructor(method: Method) {
    this.#method = method;
    this.axes = Object.entries(method.dimensions ?? {}).map(([name, each]) => axisOf(name, each));
    const random = generator(7);
    this.#starts = this.#candidates(random).filter((sizes) => allows(method, sizes));
    const start = this.#starts.at(0);
    this.smallest = start && this.#pushed(start, () => 'low', this.axes);
    const bases = Array.from({ length: this.smallest ? baseCount : 0 }, () => this.draw(random));
    this.#bases = [...this.corners(), ...bases];
  }

  /** All sizes, when they are at most as many as this. */
  all(most: number): Sizes[] | undefined {
    let all: Sizes[] = [{}];
    for (const axis of this.axes) {
      const count = axis.last - axis.first + 1;
      if (count * all.length > most) return undefined;
      const steps = Array.from({ length: count }, (_, i) => axis.first + i);
      all = all.flatMap((sizes) => steps.map((step) => moved(sizes, axis, step)));
    }
    return all.filter((sizes) => allows(this.#method, sizes));
  }

  /** Each dimension as small or as large as it can be, one after another, in several orders. */
  corners(): Sizes[] {
    if (!this.smallest) return [];
    const found = new Map<string, Sizes>();
    const masks = Math.min(2 ** this.axes.length, mostCorners);
    for (let mask = masks - 1; mask >= 0; mask--) {
      for (const axes of [this.axes, [...this.axes].reverse()]) {
        const end = ({ name }: Axis): 'low' | 'high' =>
          (mask >> this.axes.findIndex((axis) => axis.name === name)) & 1 ? 'high' : 'low';
        for (const start of [this.smallest, ...this.#starts.slice(0, 2)]) {
          const corner = this.#pushed(start, end, axes);
          found.set(JSON.stringify(corner), corner);
        }
      }
    }
    return [...found.values()];
  }

  /** The same sizes with one dimension so many steps above the lowest value that the others leave it. */
  stepped(sizes: Sizes, axis: Axis, steps: readonly number[]): Sizes[] {
    const [low, high] = this.#range(sizes, axis);
    const inside = steps.map((step) => low + step).filter((step) => step <= high);
    return inside.map((step) => moved(sizes, axis, step));
  }

  /**
   * Sizes drawn at random. Each dimension in turn takes a value that the others leave it, so that
   * however tight limits are, all are drawn.
   *
   * @param share for each axis a number below 1: from its smallest to its largest value
   */
  draw(random: Random, share: (axis: number) => number = random, scale = logarithmic): Sizes {
    let sizes = this.#starts[linear(random(), this.#starts.length - 1)];
    for (const last of [false, true]) {
      for (const axis of shuffled(this.axes, random)) {
        const [low, high] = this.#range(sizes, axis);
        const part = last ? share(this.axes.indexOf(axis)) : random();
        sizes = moved(sizes, axis, low + scale(part, high - low));
      }
    }
    return sizes;
  }

  /**
   * Sizes at which an expression has a value, else the two between which it passes over it, or none.
   * Where there are several dimensions, a few sizes, at which the others differ.
   */
  sizesWhere(size: Size, value: number): Sizes[] {
    const dimensions = dimensionsOf(size);
    const axes = this.axes.filter(({ name }) => dimensions.has(name));
    const turn = Math.abs(value);
    const exact = new Map<string, Sizes>();
    let nearest: Sizes[] = [];
    for (const base of rotated(this.#bases, turn)) {
      for (const axis of rotated(axes, turn)) {
        const found = this.#crossing(size, value, base, axis);
        if (found.length === 1) exact.set(JSON.stringify(found[0]), found[0]);
        if (exact.size === (this.axes.length > 1 ? severalWays : 1)) return [...exact.values()];
        if (nearest.length === 0) nearest = found;
      }
    }
    return exact.size > 0 ? [...exact.values()] : nearest;
  }

  /**
   * Many of the values that an expression has, or all, each with sizes at which it has it: consecutive ones
   * at both ends of each of its dimensions, as many as show all remainders by `divisor`, and random ones.
   */
  reached(size: Size, divisor: number): Map<number, Sizes[]> {
    const found = new Map<number, Sizes[]>();
    const add = (sizes: Sizes): void => {
      const value = evaluateSize(size, sizes);
      const known = found.get(value);
      if (!known) found.set(value, [sizes]);
      else if (this.axes.length > 1) known[1] = sizes;
    };
    const all = this.all(mostEnumerated);
    if (all) {
      all.forEach(add);
      return found;
    }
    const dimensions = dimensionsOf(size);
    const axes = this.axes.filter(({ name }) => dimensions.has(name));
    const bases = this.axes.length > 1 ? this.#bases : [this.smallest!];
    const window = Math.min(
      8 * divisor + smallWindow,
      Math.ceil(mostReached / (bases.length * axes.length)),
    );
    for (const base of bases) {
      for (const axis of axes) {
        const [low, high] = this.#range(base, axis);
        for (let step = low; step <= Math.min(high, low + window); step++) {
          add(moved(base, axis, step));
        }
        for (let step = Math.max(low, high - window); step <= high; step++) {
          add(moved(base, axis, step));
        }
      }
    }
    const random = generator(divisor);
    for (let i = 0; i < drawnReached; i++)
      add(this.draw(random, random, i % 2 ? linear : undefined));
    return found;
  }

  #crossing(size: Size, value: number, base: Sizes, axis: Axis): Sizes[] {
    let [low, high] = this.#range(base, axis);
    const at = (step: number): number => evaluateSize(size, moved(base, axis, step));
    const sign = at(low) <= at(high) ? 1 : -1;
    const reached = (step: number): boolean => sign * at(step) >= sign * value;
    if (sign * at(low) > sign * value || !reached(high)) return [];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (reached(middle)) high = middle;
      else low = middle;
    }
    const exact = [low, high].find((step) => at(step) === value);
    return (exact === undefined ? [low, high] : [exact]).map((step) => moved(base, axis, step));
  }

  #candidates(random: Random): Sizes[] {
    const at = (step: (axis: Axis) => number): Sizes =>
      this.axes.reduce<Sizes>((sizes, axis) => moved(sizes, axis, step(axis)), {});
    const drawn = Array.from({ length: mostStarts }, (_, i) =>
      at(({ first, last }) => first + (i % 2 ? linear : logarithmic)(random(), last - first)),
    );
    return [at(({ first }) => first), at(({ last }) => last), ...drawn];
  }

  #pushed(sizes: Sizes, end: (axis: Axis) => 'low' | 'high', axes: readonly Axis[]): Sizes {
    return axes.reduce((result, axis) => {
      const [low, high] = this.#range(result, axis);
      return moved(result, axis, end(axis) === 'low' ? low : high);
    }, sizes);
  }

  /** How far a dimension may go when the others stay, as limits that only rise or only fall have it. */
  #range(sizes: Sizes, axis: Axis): [low: number, high: number] {
    const now = sizes[axis.name] / axis.multipleOf;
    const reach = (end: number): number => {
      const may = (step: number): boolean => allows(this.#method, moved(sizes, axis, step));
      if (may(end)) return end;
      let [inside, outside] = [now, end];
      while (Math.abs(outside - inside) > 1) {
        const middle = Math.trunc((inside + outside) / 2);
        if (may(middle)) inside = middle;
        else outside = middle;
      }
      return inside;
    };
    return [reach(axis.first), reach(axis.last)];
  }
}

function moved(sizes: Sizes, { name, multipleOf }: Axis, step: number): Sizes {
  return { ...sizes, [name]: step * multipleOf };
}

/** From 0 to span: small numbers as often as large ones. */
function logarithmic(share: number, span: number): number {
  return Math.min(span, Math.floor(Math.exp(share * Math.log(span + 1))) - 1);
}

/** From 0 to span, all alike. */
export function linear(share: number, span: number): number {
  return Math.min(span, Math.floor(share * (span + 1)));
}

function rotated<T>(list: readonly T[], by: number): T[] {
  const from = list.length === 0 ? 0 : by % list.length;
  return [...list.slice(from), ...list.slice(0, from)];
}

/** The same elements in another order (Fisher and Yates). */
export function shuffled<T>(list: readonly T[], random: Random): T[] {
  const result = [...list];
  for (let i = result.length - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [result[i], result[other]] = [result[other], result[i]];
  }
  return result;
}
