import type { ArrayType, Graph, Instruction } from '../graph.js';
import type { Pass } from './pass.js';
import { producers, withKnownValues } from './replacements.js';

/**
 * Reshapes of reshapes become one; reshapes, transpositions, broadcasts and slices of nothing disappear. A
 * transposition that moves only axes of size 1, as that of the heads of a single token, is a reshape.
 */
export const foldViews: Pass = (graph) => {
  const reshaped = graph.instructions.map((instruction) => asReshape(instruction, graph));
  const made = producers({ ...graph, instructions: reshaped });
  const instructions = reshaped.map((instruction): Instruction => {
    if (instruction.op !== 'reshape') return instruction;
    let source = operand(instruction);
    for (let before = made.get(source); before?.op === 'reshape'; before = made.get(source)) {
      source = operand(before);
    }
    return { ...instruction, args: [{ array: source }, ...instruction.args.slice(1)] };
  });
  return withKnownValues({ ...graph, instructions }, (instruction) => {
    const { op, args, results } = instruction;
    if (!['reshape', 'broadcastTo', 'slice'].includes(op)) return undefined;
    const source = operand(instruction);
    if (!sameType(graph.types.get(source)!, graph.types.get(results[0])!)) return undefined;
    // With strides, which may be negative, a slice of the same size has another order.
    if (op === 'slice' && args[3] != null) return undefined;
    return [source];
  });
};

function asReshape(instruction: Instruction, graph: Graph): Instruction {
  const { op, args, results } = instruction;
  const axes = op === 'transpose' ? args[1] : undefined;
  if (typeof axes !== 'object' || axes === null || !('list' in axes)) return instruction;
  const { shape } = graph.types.get(operand(instruction))!;
  const moved = axes.list.map((axis) => Number(axis)).filter((axis) => shape.at(axis) !== 1);
  const inOrder = moved.every((axis, i) => i === 0 || moved[i - 1] < axis);
  if (!inOrder || moved.some((axis) => axis < 0)) return instruction;
  const { shape: list } = graph.types.get(results[0])!;
  return { ...instruction, op: 'reshape', args: [args[0], { list }] };
}

function operand({ args: [arg] }: Instruction): number {
  return (arg as { array: number }).array;
}

function sameType(a: ArrayType, b: ArrayType): boolean {
  return a.dtype === b.dtype && JSON.stringify(a.shape) === JSON.stringify(b.shape);
}
