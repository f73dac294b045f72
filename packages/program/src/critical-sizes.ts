/**
 * Where an expression that fits what was seen could still be wrong: at the leaning points of its floor
 * divisions, and where the larger one of two sizes changes.
 */
import {
  gcd,
  leaningPoints,
  leaningPointsOf,
  middleLine,
  remainder,
  simplerFractions,
  type DigitalLine,
  type Fraction,
  type Range,
} from './digital-line.js';
import type { Domain } from './domain.js';
import type { Graph } from './graph.js';
import { evaluateSize, plus, times, type Size, type Sizes } from './sizes.js';

// Of the points without remainder, and of those with the largest, how many are looked at in between.
const spreadCount = 8;
const spreadJumps = 4;
// At so many powers of two, below which floating-point products are rounded most, and above least.
const binades = 4;
const mostMistakable = 6;
// Of the sizes without remainder, and of those with the largest.
const exactCount = 64;

/**
 * @param traced the sizes that were traced, the ends of each range among them
 * @param doubted whether the expressions of an earlier round were wrong, so that these may be too
 */
export function criticalSizes(
  graph: Graph,
  traced: readonly Sizes[],
  domain: Domain,
  doubted: boolean,
): Sizes[] {
  const found = new Map<string, Sizes>();
  for (const size of operations(graph)) {
    for (const sizes of critical(size, traced, domain, doubted)) {
      found.set(JSON.stringify(sizes), sizes);
    }
  }
  for (const sizes of traced) found.delete(JSON.stringify(sizes));
  return [...found.values()];
}

type Operation = Exclude<Size, number | string>;

/** The floor divisions and maxima in a graph's sizes, each once. */
function operations(graph: Graph): Operation[] {
  const found = new Map<string, Operation>();
  const add = (size: Size): void => {
    if (typeof size !== 'object') return;
    if (size[0] === '//' || size[0] === 'max') found.set(JSON.stringify(size), size);
    add(size[1]);
    add(size[2]);
  };
  for (const { shape } of graph.types.values()) shape.forEach(add);
  for (const { args } of graph.instructions) {
    for (const arg of args) {
      if (typeof arg !== 'object' || arg === null) continue;
      if ('size' in arg) add(arg.size);
      if ('list' in arg) arg.list.forEach(add);
    }
  }
  return [...found.values()];
}

function critical(
  operation: Operation,
  traced: readonly Sizes[],
  domain: Domain,
  doubted: boolean,
): Sizes[] {
  const [operator, left, right] = operation;
  if (operator === 'max') return aroundZero(plus(left, times(right, -1)), domain);
  if (typeof right !== 'number') return [];
  const { inner, a, b } = withoutFactor(left);
  const common = gcd(a, right);
  const line = { a: a / common, b: Math.floor(b / common), c: right / common };
  const values = traced.map((sizes) => evaluateSize(inner, sizes));
  const results = traced.map((sizes) => evaluateSize(operation, sizes));
  const middle = doubted ? middleLine(values, results) : undefined;
  const lines = middle ? [line, middle] : [line];
  const found: Sizes[] = [];
  if (typeof inner !== 'string') {
    const reached = domain.reached(inner, line.c);
    const all = [...reached.keys()].sort((x, y) => x - y);
    const points = [
      ...lines.flatMap((each) => leaningPoints(each, all)),
      ...exactPoints(line, all),
    ];
    found.push(...points.flatMap((value) => reached.get(value)!));
  }
  const range = rangeOf(values);
  if (range.step === 0) return found;
  const corners = lines.flatMap((each) => leaningPointsOf(each, range));
  const points = [...corners, ...jumps(line, range), ...roundingPoints(line, range, corners)];
  return [...found, ...points.flatMap((value) => domain.sizesWhere(inner, value))];
}

/** Both sides of some of a line's jumps, of all when they are few: other curves have them elsewhere. */
function jumps({ a, b, c }: DigitalLine, { first, last, step }: Range): number[] {
  if (a <= 0 || a * step >= c) return [];
  const at = (value: number): number => Math.floor((a * value + b) / c);
  const count = at(last) - at(first);
  return spread(count, count <= spreadCount ? count : spreadJumps).flatMap((i) => {
    const after = Math.ceil((c * (at(first) + 1 + i) - b) / a);
    const x = first + step * Math.ceil((after - first) / step);
    return [x - step, x];
  });
}

/** Where a difference changes its sign. */
function aroundZero(difference: Size, domain: Domain): Sizes[] {
  const crossing = [-1, 0, 1].flatMap((value) => domain.sizesWhere(difference, value));
  // Remainders neither rise nor fall.
  const reached = domain.reached(difference, 1);
  const values = [...reached.keys()];
  const ends = [
    Math.max(...values.filter((value) => value < 0)),
    Math.min(...values.filter((value) => value >= 0)),
  ];
  return [...crossing, ...ends.flatMap((value) => reached.get(value) ?? [])];
}

function rangeOf(values: readonly number[]): Range {
  const first = Math.min(...values);
  const step = values.reduce((common, value) => gcd(common, value - first), 0);
  return { first, last: Math.max(...values), step };
}

/** Some of the values that leave no remainder, and of those that leave the largest. */
function exactPoints(line: DigitalLine, values: readonly number[]): number[] {
  return [0, line.c - 1].flatMap((rest) => {
    const exact = values.filter((value) => remainder(line, value) === rest);
    return spread(exact.length).map((i) => exact[i]);
  });
}

/** So many numbers below count, the first ones the densest. */
function spread(count: number, most = spreadCount): number[] {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  const shares = Array.from({ length: most }, (_, i) => (i + 0.5) / most);
  return shares.map((share) => Math.floor(count ** share));
}

/** A size as a · inner + b. */
function withoutFactor(size: Size): { inner: Size; a: number; b: number } {
  let [inner, a, b] = [size, 1, 0];
  for (;;) {
    if (typeof inner !== 'object' || typeof inner[2] !== 'number') return { inner, a, b };
    if (inner[0] === '+') b += a * inner[2];
    else if (inner[0] === '*') a *= inner[2];
    else return { inner, a, b };
    inner = inner[1];
  }
}

/**
 * What looks like a fraction may be a product with a floating-point number (`Math.floor(T * 0.35)`), which
 * is off by one where the fraction leaves no remainder, or the largest one, and that only for some of
 * these: most of all below powers of two, least above them. So may one that divides first and multiplies then
 * (`T / 16000 * 100`), wherever it likes.
 */
function roundingPoints(
  line: DigitalLine,
  { first, last, step }: Range,
  corners: readonly number[],
): number[] {
  if (line.a <= 0) return [];
  const points = [0, line.c - 1].flatMap((rest) => {
    // Hulls touch the line there first.
    const start = corners.find((value) => remainder(line, value) === rest);
    return start === undefined
      ? []
      : progression(line, { first: start, last, step: leastCommon(step, line.c) });
  });
  for (const [a, c] of mistakable(line, last)) {
    const period = c % 2 === 0 ? c / 2 : c;
    const all = leastCommon(step, period);
    const start = Math.ceil(first / all) * all;
    if (start <= last) points.push(...progression({ a, c }, { first: start, last, step: all }));
  }
  return points;
}

/**
 * Fractions that a product may have been meant to be, where what was off has been put down to another
 * fraction and an offset.
 */
function mistakable(line: DigitalLine, last: number): Fraction[] {
  const near = simplerFractions(line).filter(
    ([a, c]) => a > 0 && Math.abs(line.a / line.c - a / c) * last < 1,
  );
  return near.sort((x, y) => x[1] - y[1]).slice(0, mostMistakable);
}

function leastCommon(a: number, b: number): number {
  return (a * b) / gcd(a, b);
}

/** Some values of a range: spread over it, before and after products with a / c pass powers of two. */
function progression(
  { a, c }: Pick<DigitalLine, 'a' | 'c'>,
  { first, last, step }: Range,
): number[] {
  const count = Math.floor((last - first) / step) + 1;
  const highest = Math.floor(Math.log2((last * a) / c));
  const below = Array.from({ length: binades }, (_, i) =>
    Math.floor(((2 ** (highest - i) * c) / a - first) / step),
  );
  return [
    ...spread(count, exactCount),
    ...below,
    ...below.map((j) => j - 1),
    ...below.map((j) => j + 1),
  ]
    .filter((j) => j >= 0 && j < count)
    .map((j) => first + step * j);
}
