/** The sizes at which a method is traced first. */
import { randomInt } from 'node:crypto';
import { Domain, generator, linear, shuffled } from './domain.js';
import type { Graph } from './graph.js';
import type { Method } from './method.js';
import type { Sizes } from './sizes.js';

// All of them, when there are no more.
const fewSizes = 48;
// Where residues and the ends of limits show.
const smallSteps = [0, 1, 2, 3, 5, 7, 10, 13];
// So that none leaves out a wide range.
const drawnCount = 20;
// Where the code is known to be right.
const fewDrawn = 2;
// Of the numbers in a graph.
const familiarCount = 4;

/** All sizes when they are few; else small ones, corners, and some at random, none of them twice. */
export function traceSizes(domain: Domain): Sizes[] {
  return domain.all(fewSizes) ?? distinct([...smallSizes(domain), ...drawn(domain, 1)]);
}

/** As few as tell dimensions apart: the smallest and the largest, one step of each dimension, and some at random. */
export function fewTraceSizes(domain: Domain): Sizes[] {
  const { smallest, axes } = domain;
  if (!smallest) return [];
  const stepped = axes.flatMap((axis) => domain.stepped(smallest, axis, [1]));
  const largest = domain.corners().slice(0, 1);
  return distinct([smallest, ...stepped, ...largest, ...drawn(domain, 1).slice(0, fewDrawn)]);
}

/** A size that differs from run to run, and from those of `traceSizes` where the method has others. */
export function untracedSize(method: Method): Sizes {
  const domain = new Domain(method);
  const traced = new Set(traceSizes(domain).map((sizes) => JSON.stringify(sizes)));
  const others = drawn(domain, randomInt(2 ** 31));
  return others.findLast((sizes) => !traced.has(JSON.stringify(sizes))) ?? others[0];
}

/** Each dimension at small values while the others are smallest, and the corners. */
function smallSizes(domain: Domain): Sizes[] {
  const { smallest, axes } = domain;
  if (!smallest) return [];
  const stepped = axes.flatMap((axis) => domain.stepped(smallest, axis, smallSteps));
  return [smallest, ...stepped, ...domain.corners()];
}

/** Dimensions vary independently of one another. */
function drawn(domain: Domain, seed: number): Sizes[] {
  if (!domain.smallest) return [];
  const random = generator(seed);
  const numbers = Array.from({ length: drawnCount }, (_, i) => i);
  const strata = domain.axes.map(() => shuffled(numbers, random));
  return numbers.map((i) => {
    const share = (axis: number): number => (strata[axis][i] + random()) / drawnCount;
    return i % 3 === 0 ? domain.draw(random, share, linear) : domain.draw(random, share);
  });
}

function distinct(all: readonly Sizes[]): Sizes[] {
  return [...new Map(all.map((sizes) => [JSON.stringify(sizes), sizes])).values()];
}

/**
 * Each dimension at and beside the numbers that a graph has most often, such as a window or a context
 * length, since that is where model code branches.
 */
export function familiarSizes(domain: Domain, graph: Graph): Sizes[] {
  const counts = new Map<number, number>();
  for (const number of numbersOf(graph)) counts.set(number, (counts.get(number) ?? 0) + 1);
  const frequent = [...counts.keys()].sort((a, b) => counts.get(b)! - counts.get(a)!);
  return domain.axes.flatMap(({ name, multipleOf, first, last }) => {
    const inside = frequent.filter((n) => n > first * multipleOf && n < last * multipleOf);
    const near = inside
      .slice(0, familiarCount)
      .flatMap((number) => [number - 1, number, number + 1]);
    return near.flatMap((number) => domain.sizesWhere(name, number).slice(0, 1));
  });
}

/** The whole numbers among the shapes and arguments of a trace. */
function numbersOf({ types, instructions }: Graph): number[] {
  const shapes = [...types.values()].map(({ shape }) => shape);
  const args = instructions.flatMap((instruction) => instruction.args);
  const given = args.map((arg) =>
    typeof arg === 'object' && arg !== null && 'list' in arg ? arg.list : [arg],
  );
  return [...shapes, ...given].flat().filter((each) => Number.isSafeInteger(each)) as number[];
}
