/**
 * Digital lines: ⌊(a · x + b) / c⌋ for whole x. What lies under a line and what lies above it is told by
 * few points, the leaning points (Debled-Rennesson and Reveillès 1995); among them are the first and last
 * x that leave no remainder, and those that leave the largest.
 */

/** c is positive and has no divisor in common with a. */
export interface DigitalLine {
  a: number;
  b: number;
  c: number;
}

// Up to it leaning points are looked for one by one.
const largestDivisor = 2 ** 20;

// Of those in a continued fraction; larger ones stand for fractions that are close to one another.
const largestQuotient = 64;

export type Fraction = readonly [numerator: number, denominator: number];

/** The line with the smallest c that gives y at each x, or undefined when none does. */
export function lineThrough(x: readonly number[], y: readonly number[]): DigitalLine | undefined {
  const bounds = slopeBounds(x, y);
  if (!bounds) return undefined;
  const [[lowA, lowC], [highA, highC]] = bounds;
  const [a, c] = simplest(BigInt(lowA), BigInt(lowC), BigInt(highA), BigInt(highC));
  return withSlope([Number(a), Number(c)], x, y);
}

/** One that lies amid all lines that give y at each x: where it jumps tells which half of them is wrong. */
export function middleLine(x: readonly number[], y: readonly number[]): DigitalLine | undefined {
  const bounds = slopeBounds(x, y);
  if (!bounds) return undefined;
  const [low, high] = bounds.map((bound) => bound.map(BigInt));
  // Two thirds of the one and one of the other.
  const between = (near: readonly bigint[], far: readonly bigint[]): [bigint, bigint] => [
    2n * near[0] * far[1] + far[0] * near[1],
    3n * near[1] * far[1],
  ];
  const [a, c] = simplest(...between(low, high), ...between(high, low));
  return withSlope([Number(a), Number(c)], x, y, middleOffset);
}

type Offset = (range: readonly [from: number, to: number], c: number) => number;

/** The line of a slope that gives y at each x, or undefined when none does. */
export function withSlope(
  [a, c]: Fraction,
  x: readonly number[],
  y: readonly number[],
  offset: Offset = likelyOffset,
): DigitalLine | undefined {
  if (!Number.isSafeInteger(a) || c > largestDivisor) return undefined;
  const rests = y.map((value, i) => c * value - a * x[i]);
  const range = [Math.max(...rests), Math.min(...rests) + c - 1] as const;
  if (!rests.every(Number.isSafeInteger) || range[0] > range[1]) return undefined;
  return { a, b: offset(range, c), c };
}

/** Of the offsets that fit, the one that is most likely meant: none, rounding up, or to the nearest. */
const likelyOffset: Offset = (range, c) => {
  const likely = [0, c - 1, c >> 1].find((offset) => range[0] <= offset && offset <= range[1]);
  return likely ?? middleOffset(range, c);
};

const middleOffset: Offset = ([from, to]) => from + Math.floor((to - from) / 2);

/** Between which a / c lies, both excluded: no two points are further apart than rounding explains. */
function slopeBounds(
  x: readonly number[],
  y: readonly number[],
): [low: Fraction, high: Fraction] | undefined {
  let low: Fraction | undefined;
  let high: Fraction | undefined;
  const order = x.map((_, i) => i).sort((i, j) => x[i] - x[j]);
  for (let i = 0; i < order.length; i++) {
    for (let j = 0; j < i; j++) {
      const dx = x[order[i]] - x[order[j]];
      const dy = y[order[i]] - y[order[j]];
      if (dx === 0 && dy !== 0) return undefined;
      if (dx === 0) continue;
      if (!low || (dy - 1) / dx > low[0] / low[1]) low = [dy - 1, dx];
      if (!high || (dy + 1) / dx < high[0] / high[1]) high = [dy + 1, dx];
    }
    if (low && high && low[0] / low[1] >= high[0] / high[1]) return undefined;
  }
  return low && high && [low, high];
}

/** The fraction with the smallest denominator between two others, by their continued fractions. */
function simplest(
  lowA: bigint,
  lowC: bigint,
  highA: bigint,
  highC: bigint,
): [a: bigint, c: bigint] {
  const whole = lowA / lowC - (lowA % lowC < 0n ? 1n : 0n);
  if ((whole + 1n) * highC < highA) return [whole + 1n, 1n];
  const [c, a] = simplest(highC, highA - whole * highC, lowC, lowA - whole * lowC);
  return [whole * c + a, c];
}

/** What a line leaves over at x: from 0 to c − 1. */
export function remainder({ a, b, c }: DigitalLine, x: number): number {
  return (modulo(a, c) * modulo(x, c) + modulo(b, c)) % c;
}

function modulo(value: number, by: number): number {
  return ((value % by) + by) % by;
}

interface Point {
  x: number;
  /** Above the line without rounding, in c-ths, which leaves hulls what they are. */
  height: number;
}

/**
 * The corners of the convex hull of a line's points at these x, which rise. Any line, of whatever slope,
 * that gives the same at the corners gives the same at all of them.
 */
export function leaningPoints(line: DigitalLine, x: readonly number[]): number[] {
  const corners = new Set<number>();
  const rests = x.map((each) => remainder(line, each));
  for (const sign of [-1, 1]) {
    const chain: Point[] = [];
    for (const [i, each] of x.entries()) extend(chain, { x: each, height: sign * rests[i] }, 1);
    for (const point of chain) corners.add(point.x);
  }
  return [...corners].sort((a, b) => a - b);
}

/** Values from the first to the last, a step apart. */
export interface Range {
  first: number;
  last: number;
  step: number;
}

/** The same at all x of a range, however wide. Where all remainders occur is at either end. */
export function leaningPointsOf(line: DigitalLine, { first, last, step }: Range): number[] {
  const { a, c } = line;
  const window = Math.min((last - first) / step, c / gcd(step, c));
  const candidates = new Set<number>();
  for (const direction of [1, -1]) {
    const start = direction > 0 ? first : last;
    const change = remainder({ a, b: 0, c }, direction * step);
    const [least, most]: Point[][] = [[], []];
    let rest = remainder(line, start);
    for (let i = 0; i <= window; i++) {
      const x = start + direction * step * i;
      // From an end on, hulls only rise until they touch the line.
      if (least.length === 0 || -rest > least.at(-1)!.height) {
        extend(least, { x, height: -rest }, direction);
      }
      if (most.length === 0 || rest > most.at(-1)!.height) {
        extend(most, { x, height: rest }, direction);
      }
      rest += change;
      if (rest >= c) rest -= c;
    }
    for (const { x } of [...least, ...most]) candidates.add(x);
  }
  return leaningPoints(
    line,
    [...candidates].sort((x, y) => x - y),
  );
}

/** Adds a point to an upper hull, which grows to the right or to the left. */
function extend(chain: Point[], point: Point, direction: number): void {
  while (chain.length > 1 && !turnsDown(chain.at(-2)!, chain.at(-1)!, point, direction))
    chain.pop();
  chain.push(point);
}

function turnsDown(a: Point, b: Point, c: Point, direction: number): boolean {
  const [rise, next] = [b.height - a.height, c.height - b.height];
  return rise * direction * (c.x - b.x) > next * direction * (b.x - a.x);
}

export function gcd(a: number, b: number): number {
  let [x, y] = [Math.abs(a), Math.abs(b)];
  while (y !== 0) [x, y] = [y, x % y];
  return x;
}

/**
 * Fractions with smaller denominators that come near to a / c: those of its continued fraction, with those
 * in between.
 */
export function simplerFractions({ a, c }: DigitalLine): Fraction[] {
  const found: Fraction[] = [];
  let [rest, by] = [a, c];
  let [before, last]: Fraction[] = [
    [0, 1],
    [1, 0],
  ];
  while (by !== 0) {
    const whole = Math.floor(rest / by);
    const after = (times: number): Fraction => [
      times * last[0] + before[0],
      times * last[1] + before[1],
    ];
    for (let times = 1; times <= Math.min(whole, largestQuotient); times++)
      found.push(after(times));
    [before, last] = [last, after(whole)];
    [rest, by] = [by, rest - whole * by];
  }
  return found.filter((fraction) => fraction[1] > 0 && fraction[1] < c);
}
