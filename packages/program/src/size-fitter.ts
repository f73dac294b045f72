/**
 * Finds the expression behind an integer that was seen at several sizes. First among the sizes that came
 * up before (the declared dimensions, and those of earlier arrays), then as an expression of one or two
 * of them, the simplest first.
 */
import { gcd, lineThrough, withSlope } from './digital-line.js';
import { evaluateSize, floorDivide, plus, times, type Size, type Sizes } from './sizes.js';

/** An integer at each of the traced sizes. */
type Column = readonly number[];

interface Known {
  size: Size;
  column: Column;
}

/** An expression; the smaller its divisor, the likelier it is meant. */
interface Found {
  size: Size;
  divisor: number;
}

// Two at a time are looked at among the first few: the dimensions, and what they turn into.
const mostPaired = 12;
// Factors of a rounded number are looked for up to here, and as cofactors of these.
const largestTried = 1024;

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
    return (
      this.#simplest(column, this.#known) ??
      this.#first(column, () => this.#weighted(column)) ??
      this.#simplest(column, this.#pairs())
    );
  }

  /** Expressions of one size, those without rounding first. */
  #simplest(column: Column, candidates: readonly Known[]): Size | undefined {
    const each = function* (find: (column: Column, known: Known) => Found | undefined) {
      for (const known of candidates) {
        const found = find(column, known);
        if (found) yield found;
      }
    };
    return (
      this.#first(column, () => each(affine)) ??
      this.#first(column, () => each(clamped)) ??
      this.#first(column, () => byDivisor(each(multiple))) ??
      this.#first(column, () => byDivisor(each(rounded))) ??
      this.#first(column, () => byDivisor(each(padding)))
    );
  }

  #first(column: Column, find: () => Iterable<Found>): Size | undefined {
    for (const { size } of find()) if (this.#gives(size, column)) return size;
    return undefined;
  }

  *#weighted(column: Column): Iterable<Found> {
    for (const [a, b] of this.#paired()) {
      const found = weightedSum(column, a, b);
      if (found) yield found;
    }
  }

  *#paired(): Iterable<[Known, Known]> {
    const candidates = this.#known.slice(0, mostPaired);
    for (const [i, a] of candidates.entries()) {
      for (const b of candidates.slice(i)) yield [a, b];
    }
  }

  /** Products, sums, differences and maxima of two. */
  #pairs(): Known[] {
    return [...this.#paired()].flatMap(([a, b]) => {
      const of = (size: Size): Known => ({
        size,
        column: this.#points.map((sizes) => evaluateSize(size, sizes)),
      });
      const product = of(times(a.size, b.size));
      if (a === b) return [product];
      const difference = of(plus(a.size, times(b.size, -1)));
      return [product, of(plus(a.size, b.size)), difference, of(['max', a.size, b.size])];
    });
  }

  #gives(size: Size, column: Column): boolean {
    return column.every((value, i) => evaluateSize(size, this.#points[i]) === value);
  }
}

function byDivisor(found: Iterable<Found>): Found[] {
  return [...found].sort((a, b) => a.divisor - b.divisor);
}

/** a · d + b */
function affine(column: Column, { size, column: d }: Known): Found | undefined {
  const i = d.findIndex((value) => value !== d[0]);
  if (i < 0) return undefined;
  const slope = (column[i] - column[0]) / (d[i] - d[0]);
  if (!Number.isSafeInteger(slope) || slope === 0) return undefined;
  return { size: plus(times(size, slope), column[0] - slope * d[0]), divisor: 1 };
}

/** max(a · d + b, e), or min */
function clamped(column: Column, known: Known): Found | undefined {
  const negated = column.map((value) => -value);
  const size = atLeast(column, known) ?? times(atLeast(negated, known) ?? 0, -1);
  return size === 0 ? undefined : { size, divisor: 1 };
}

function atLeast(column: Column, { size, column: d }: Known): Size | undefined {
  const least = Math.min(...column);
  const above = column.flatMap((value, i) => (value > least ? [i] : []));
  const [i] = above;
  const j = above.find((each) => d[each] !== d[i]);
  const slope =
    j === undefined
      ? steepEnough(column[i] - least, d[i], d)
      : (column[j] - column[i]) / (d[j] - d[i]);
  if (!Number.isSafeInteger(slope) || slope === 0) return undefined;
  const line = (k: number): number => column[i] + slope * (d[k] - d[i]);
  if (!column.every((value, k) => value === Math.max(line(k), least))) return undefined;
  return ['max', plus(times(size, slope), column[i] - slope * d[i]), least];
}

/** The slope of a line that falls by so much from the one end of a size to the value beside it. */
function steepEnough(fall: number, from: number, d: Column): number {
  const gaps = d.map((value) => from - value).filter((gap) => gap !== 0);
  const nearest = gaps.reduce((a, b) => (Math.abs(b) < Math.abs(a) ? b : a), Infinity);
  return Math.sign(nearest) * Math.ceil(fall / Math.abs(nearest));
}

/** m · ⌊(a · d + b) / c⌋ + e */
function rounded(column: Column, { size, column: d }: Known): Found | undefined {
  for (const m of divisors(commonStep(column))) {
    const [whole, rest] = quotients(column, m);
    const line = lineThrough(d, whole);
    if (!line) continue;
    const inner = floorDivide(plus(times(size, line.a), line.b), line.c);
    return { size: plus(times(inner, m), rest), divisor: line.c };
  }
  return undefined;
}

/** c · ⌊(d + b) / c⌋ + e */
function multiple(column: Column, { size, column: d }: Known): Found | undefined {
  for (const c of divisors(commonStep(column))) {
    const [whole, rest] = quotients(column, c);
    const line = c === 1 ? undefined : withSlope([1, c], d, whole);
    if (!line) continue;
    const inner = floorDivide(plus(size, line.b), c);
    return { size: plus(times(inner, c), rest), divisor: c };
  }
  return undefined;
}

/** What d lacks to a multiple of c, or goes beyond one: c · ⌊(d + b) / c⌋ − d, with either sign. */
function padding(column: Column, known: Known): Found | undefined {
  const { size, column: d } = known;
  const above = multiple(
    column.map((value, i) => value + d[i]),
    known,
  );
  if (above) return { ...above, size: plus(above.size, times(size, -1)) };
  const below = multiple(
    column.map((value, i) => d[i] - value),
    known,
  );
  return below && { ...below, size: plus(size, times(below.size, -1)) };
}

/** Of which all differences between values are multiples. */
function commonStep(column: Column): number {
  return column.reduce((common, value) => gcd(common, value - column[0]), 0);
}

/** A column whose values all leave the same rest. */
function quotients(column: Column, by: number): [whole: Column, rest: number] {
  const rest = column[0] - by * Math.floor(column[0] / by);
  return [column.map((value) => (value - rest) / by), rest];
}

/** Some at least, the largest first. */
function divisors(number: number): number[] {
  const found = new Set<number>();
  for (let i = 1; i <= largestTried && i * i <= number; i++) {
    if (number % i === 0) found.add(i).add(number / i);
  }
  return [...found].sort((a, b) => b - a);
}

/** a · d + b · e + f */
function weightedSum(column: Column, { size, column: d }: Known, other: Known): Found | undefined {
  const e = other.column;
  const [i, j] = independent(d, e);
  if (j === undefined) return undefined;
  const det = minor(d, e, i, j);
  const a = minor(column, e, i, j) / det;
  const b = minor(d, column, i, j) / det;
  if (!Number.isSafeInteger(a) || !Number.isSafeInteger(b) || a === 0 || b === 0) return undefined;
  const sum = plus(times(size, a), times(other.size, b));
  return { size: plus(sum, column[0] - a * d[0] - b * e[0]), divisor: 1 };
}

/** Two points at which two sizes differ from the first point in two directions. */
function independent(d: Column, e: Column): [number, number?] {
  const i = d.findIndex((value, k) => value !== d[0] || e[k] !== e[0]);
  const j = d.findIndex((_, k) => i >= 0 && minor(d, e, i, k) !== 0);
  return j < 0 ? [i] : [i, j];
}

function minor(d: Column, e: Column, i: number, j: number): number {
  return (d[i] - d[0]) * (e[j] - e[0]) - (d[j] - d[0]) * (e[i] - e[0]);
}
