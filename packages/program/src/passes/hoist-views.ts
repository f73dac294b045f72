/** What is done to each part of a cut is done before it, once. */
import {
  nextValue,
  operand,
  operands,
  type Argument,
  type ArrayType,
  type Graph,
  type Instruction,
} from '../graph.js';
import { sameSize, type Size } from '../sizes.js';
import type { Pass } from './pass.js';

/**
 * Where all parts of a `splitAt` are reshaped or transposed alike, and used in no other way, the whole is, and its
 * parts are cut along the axis that theirs has become: the heads of queries, keys and values.
 */
export const hoistViews: Pass = (graph) => {
  // A part that was reshaped may be transposed next.
  for (let before = graph; ;) {
    const after = hoistOnce(before);
    if (after === before) return after;
    before = after;
  }
};

interface Hoisted {
  /** The view of the whole. */
  args: readonly Argument[];
  shape: readonly Size[];
  /** Where it is cut. */
  axis: number;
  indices: readonly number[];
}

function hoistOnce(graph: Graph): Graph {
  const readers = readersOf(graph);
  for (const split of graph.instructions) {
    if (split.op !== 'splitAt') continue;
    const views = viewsOf(split, readers);
    if (!views) continue;
    const hoisted =
      views[0].op === 'reshape'
        ? hoistedReshape(split, views, graph)
        : hoistedTranspose(split, views, graph);
    if (hoisted) return withHoisted(graph, split, views, hoisted);
  }
  return graph;
}

/** The instructions that read a value; none when it is an output or a state as well. */
function readersOf(graph: Graph): Map<number, Instruction[]> {
  const readers = new Map<number, Instruction[]>();
  for (const instruction of graph.instructions) {
    for (const value of operands(instruction)) {
      readers.set(value, [...(readers.get(value) ?? []), instruction]);
    }
  }
  for (const { value } of graph.outputs) readers.delete(value);
  for (const { next } of graph.states) readers.delete(next);
  return readers;
}

function viewsOf(
  { results }: Instruction,
  readers: ReadonlyMap<number, readonly Instruction[]>,
): Instruction[] | undefined {
  const all = results.map((value) => readers.get(value) ?? []);
  if (all.some((each) => each.length !== 1)) return undefined;
  const views = all.flat();
  const { op } = views[0];
  return views.every((view) => view.op === op) && ['reshape', 'transpose'].includes(op)
    ? views
    : undefined;
}

/** The last axis, which was cut, has become several: the cut goes through the first of these. */
function hoistedReshape(
  split: Instruction,
  views: readonly Instruction[],
  { types }: Graph,
): Hoisted | undefined {
  const whole = types.get(operand(split.args[0])!)!;
  const lead = whole.shape.slice(0, -1);
  if (split.args[2] !== lead.length) return undefined;
  const shapes = views.map(({ results }) => types.get(results[0])!.shape);
  const [shape] = shapes;
  const axis = shape.findIndex((size, i) => size !== 1 && sameBesidesOnes(shape.slice(0, i), lead));
  if (axis < 0) return undefined;
  const alike = shapes.every(
    (each) =>
      each.length === shape.length &&
      each.every((size, i) => i === axis || sameSize(size, shape[i])),
  );
  const widths = shapes.map((each) => each[axis]);
  if (!alike || !areNumbers(widths)) return undefined;
  const total = widths.reduce((sum, width) => sum + width, 0);
  const list = shape.with(axis, total);
  return { args: [split.args[0], { list }], shape: list, axis, indices: indicesOf(widths) };
}

function hoistedTranspose(
  split: Instruction,
  views: readonly Instruction[],
  { types }: Graph,
): Hoisted | undefined {
  const [, axes] = views[0].args;
  if (typeof axes !== 'object' || axes === null || !('list' in axes)) return undefined;
  const same = views.every(({ args }) => JSON.stringify(args[1]) === JSON.stringify(axes));
  const { shape } = types.get(operand(split.args[0])!)!;
  const fromStart = (at: unknown): number => Number(at) + (Number(at) < 0 ? shape.length : 0);
  const from = axes.list.map(fromStart);
  const axis = from.indexOf(fromStart(split.args[2]));
  if (!same || axis < 0) return undefined;
  const turned = from.map((each) => shape[each]);
  const { list } = split.args[1] as { list: readonly number[] };
  return { args: [split.args[0], axes], shape: turned, axis, indices: list };
}

function withHoisted(
  graph: Graph,
  split: Instruction,
  views: readonly Instruction[],
  { args, shape, axis, indices }: Hoisted,
): Graph {
  const { dtype } = graph.types.get(operand(split.args[0])!)!;
  const value = nextValue(graph);
  const types = new Map<number, ArrayType>(graph.types).set(value, { dtype, shape });
  const { op, source } = views[0];
  const instructions = graph.instructions.flatMap((instruction): Instruction[] => {
    if (instruction === split) {
      return [
        { op, args, results: [value], source },
        {
          ...split,
          args: [{ array: value }, { list: indices }, axis],
          results: views.map(({ results }) => results[0]),
        },
      ];
    }
    return views.includes(instruction) ? [] : [instruction];
  });
  for (const part of split.results) types.delete(part);
  return { ...graph, instructions, types };
}

function sameBesidesOnes(a: readonly Size[], b: readonly Size[]): boolean {
  const [left, right] = [a, b].map((sizes) => sizes.filter((size) => size !== 1));
  return left.length === right.length && left.every((size, i) => sameSize(size, right[i]));
}

function areNumbers(sizes: readonly Size[]): sizes is number[] {
  return sizes.every((size) => typeof size === 'number');
}

/** Where parts of these widths begin, without the first. */
function indicesOf(widths: readonly number[]): number[] {
  return widths
    .slice(0, -1)
    .map((_, i) => widths.slice(0, i + 1).reduce((sum, width) => sum + width, 0));
}
