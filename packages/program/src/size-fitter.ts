/**
 * Finds the expression behind an integer that was seen at several sizes. First among the sizes that came
 * up before (the declared dimensions, and those of earlier arrays), then as an expression of one or two
 * of them, the simplest first.
 */
import { compute, evaluateSize, floorDivide, plus, times, type Size, type Sizes } from './sizes.js';

/** An integer at each of the traced sizes. */
type Column = readonly number[];

interface Known {
  size: Size;
  column: Column;
}

// Strides, hops and paddings are rarely larger, and each is one pass over the columns.
const largestDivisor = 512;
// Sums and products are looked for among the first few: the dimensions, and what they turn into.
const mostPaired = 12;

export class SizeFitter {
  readonly #points: readonly Sizes[];
  readonly #known: Known[] = [];
  readonly #found = new Map<string, Size | undefined>();

  /** @param points the traced sizes */
  constructor(dimensions: readonly string[], points: readonly Sizes[]) {
    this.#points = points;
    for (const name of dimensions)
      this.#learn(
        name,
        points.map((sizes) => sizes[name]),
      );
  }

  /** The expression that gives this column, or undefined when none does. */
  fit(column: Column): Size | undefined {
    const [first] = column;
    if (column.every((value) => value === first)) return first;
    const key = column.join();
    if (!this.#found.has(key)) {
      const size = this.#search(column);
      this.#found.set(key, size);
      if (size !== undefined) this.#learn(size, column);
    }
    return this.#found.get(key);
  }

  #learn(size: Size, column: Column): void {
    this.#found.set(column.join(), size);
    this.#known.push({ size, column });
  }

  #search(column: Column): Size | undefined {
    for (const find of [affine, clamped, roundedUp, divided]) {
      for (const known of this.#known) {
        const size = find(column, known);
        if (size !== undefined && this.#gives(size, column)) return size;
      }
    }
    return this.#pairs(column);
  }

  #pairs(column: Column): Size | undefined {
    const candidates = this.#known.slice(0, mostPaired);
    for (const find of [sum, padding, product]) {
      for (const a of candidates) {
        for (const b of candidates) {
          const size = find(column, a, b);
          if (size !== undefined && this.#gives(size, column)) return size;
        }
      }
    }
    return undefined;
  }

  #gives(size: Size, column: Column): boolean {
    return column.every((value, i) => evaluateSize(size, this.#points[i]) === value);
  }
}

function differing(column: Column): [number, number] {
  const other = column.findIndex((value) => value !== column[0]);
  return [0, other];
}

/** a · d + b */
function affine(column: Column, { size, column: d }: Known): Size | undefined {
  const [i, j] = differing(d);
  if (j < 0) return undefined;
  const slope = (column[j] - column[i]) / (d[j] - d[i]);
  if (!Number.isInteger(slope) || slope === 0) return undefined;
  return plus(times(size, slope), column[i] - slope * d[i]);
}

/** max(d, b) */
function clamped(column: Column, { size }: Known): Size | undefined {
  return ['max', size, Math.min(...column)];
}

/** The whole numbers b for which (a · d + b) // c gives the column. */
function offsets(column: Column, d: Column, a: number, c: number): [number, number] {
  const from = Math.max(...column.map((value, i) => c * value - a * d[i]));
  const to = Math.min(...column.map((value, i) => c * value - a * d[i] + c - 1));
  return [from, to];
}

/** Of the offsets that fit, the one that is most likely meant: none, or rounding up. */
function likely([from, to]: readonly [number, number], c: number): number {
  if (from <= 0 && 0 <= to) return 0;
  return from <= c - 1 && c - 1 <= to ? c - 1 : from;
}

/** (a · d + b) // c, with the smallest c */
function divided(column: Column, { size, column: d }: Known): Size | undefined {
  const low = d.indexOf(Math.min(...d));
  const high = d.indexOf(Math.max(...d));
  if (d[low] === d[high]) return undefined;
  const slope = (column[high] - column[low]) / (d[high] - d[low]);
  for (let c = 2; c <= largestDivisor; c++) {
    // Rounding moves either end by less than one.
    const a = Math.round(slope * c);
    const range = offsets(column, d, a, c);
    if (a > 0 && range[0] <= range[1]) {
      return floorDivide(plus(times(size, a), likely(range, c)), c);
    }
  }
  return undefined;
}

/** c · ((d + b) // c): d as a multiple of c */
function roundedUp(column: Column, { size, column: d }: Known): Size | undefined {
  for (let c = 2; c <= largestDivisor; c++) {
    if (column.some((value) => value % c !== 0)) continue;
    const range = offsets(
      column.map((value) => value / c),
      d,
      1,
      c,
    );
    if (range[0] <= range[1]) {
      return times(floorDivide(plus(size, likely(range, c)), c), c);
    }
  }
  return undefined;
}

/** d + e + b, or d − e + b */
function sum(column: Column, a: Known, b: Known): Size | undefined {
  if (a === b) return undefined;
  for (const sign of [1, -1]) {
    const rest = column[0] - a.column[0] - sign * b.column[0];
    const fits = column.every((value, i) => value === a.column[i] + sign * b.column[i] + rest);
    if (fits) return plus(plus(a.size, times(b.size, sign)), rest);
  }
  return undefined;
}

/** What d lacks to a multiple of c, or goes beyond one: c · ((d + b) // c) − d, with either sign. */
function padding(column: Column, a: Known, b: Known): Size | undefined {
  if (a !== b) return undefined;
  const { size, column: d } = a;
  const above = roundedUp(
    column.map((value, i) => value + d[i]),
    a,
  );
  if (above !== undefined) return plus(above, times(size, -1));
  const below = roundedUp(
    column.map((value, i) => d[i] - value),
    a,
  );
  return below === undefined ? undefined : plus(size, times(below, -1));
}

/** a · d · e + b, also d · d */
function product(column: Column, a: Known, b: Known): Size | undefined {
  const products = a.column.map((value, i) => compute('*', value, b.column[i]));
  return affine(column, { size: times(a.size, b.size), column: products });
}
