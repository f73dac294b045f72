import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { callOp, itemSizes } from '@mlx-runners/mlx-core/program';
import {
  countUses,
  operands,
  type Argument,
  type Graph,
  type Instruction,
  type NamedValue,
} from '../graph.js';
import type { Constants, Pass } from './pass.js';

// Larger results are kept only where they take the place of what they are made from.
const alwaysSmall = 64 * 1024;

/** Instructions on constants alone are run now, and their results become constants. */
export const foldConstants: Pass = (graph, constants) => fold(graph, constants, true);

/** As `foldConstants`, but leaves weights the arrays that they are. */
export const foldSmallConstants: Pass = (graph, constants) => fold(graph, constants, false);

function fold(graph: Graph, constants: Constants, mayReplace: boolean): Graph {
  const names = new Map(graph.constants.map(({ name, value }) => [value, name]));
  const uses = countUses(graph);
  const added: NamedValue[] = [];
  const instructions = graph.instructions.filter((instruction) => {
    if (!isFoldable(instruction, names, graph, mayReplace ? uses : noUses)) return true;
    const results = compute(instruction, (value) => constants.get(names.get(value)!));
    for (const [i, value] of instruction.results.entries()) {
      const name = constants.add(results[i]);
      names.set(value, name);
      added.push({ name, value });
    }
    return false;
  });
  return { ...graph, instructions, constants: [...graph.constants, ...added] };
}

const noUses: ReadonlyMap<number, number> = new Map();

function isFoldable(
  instruction: Instruction,
  names: ReadonlyMap<number, string>,
  graph: Graph,
  uses: ReadonlyMap<number, number>,
): boolean {
  const read = operands(instruction);
  if (!read.every((value) => names.has(value))) return false;
  if (instruction.args.some(isDynamic)) return false;
  const bytes = instruction.results.reduce((sum, value) => sum + bytesOf(graph, value), 0);
  const freed = read
    .filter((value) => uses.get(value) === 1)
    .reduce((sum, value) => sum + bytesOf(graph, value), 0);
  return bytes <= Math.max(alwaysSmall, freed);
}

function isDynamic(arg: Argument): boolean {
  if (typeof arg !== 'object' || arg === null) return false;
  return 'size' in arg || ('list' in arg && arg.list.some((size) => typeof size !== 'number'));
}

function bytesOf(graph: Graph, value: number): number {
  const { dtype, shape } = graph.types.get(value)!;
  const sizes = shape.map((size) => (typeof size === 'number' ? size : Infinity));
  return sizes.reduce((product, size) => product * size, itemSizes[dtype]);
}

function compute({ op, args }: Instruction, array: (value: number) => MxArray): MxArray[] {
  const given = args.map((arg) => {
    if (typeof arg !== 'object' || arg === null) return arg;
    if ('array' in arg) return array(arg.array);
    if ('arrays' in arg) return arg.arrays.map(array);
    return 'list' in arg ? arg.list : arg;
  });
  const results = callOp(op, given);
  mx.evalSync(...results);
  return results;
}
