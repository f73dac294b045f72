/** A residual connection and the norm that follows it become one, also where one layer meets the next. */
import type { Dtype } from '@mlx-runners/mlx-core';
import { operand, operands, type Graph, type Instruction } from '../graph.js';
import { sameSize } from '../sizes.js';
import type { Pass } from './pass.js';

/** `rmsNorm(x + residual)` where nothing has read the sum before; what reads it later still can. */
export const fuseAddRmsNorm: Pass = (graph) => {
  const addOf = sumsAndNorms(graph);
  const adds = new Set(addOf.values());
  const instructions = graph.instructions.flatMap((instruction): Instruction[] => {
    const add = addOf.get(instruction);
    if (!add) return adds.has(instruction) ? [] : [instruction];
    return [
      {
        ...instruction,
        op: 'addRmsNorm',
        args: [...add.args, ...instruction.args.slice(1)],
        results: [...add.results, ...instruction.results],
      },
    ];
  });
  return { ...graph, instructions };
};

/** By norm: the addition of what it reads, where it is the first to do so. */
function sumsAndNorms(graph: Graph): Map<Instruction, Instruction> {
  const unread = new Map<number, Instruction>();
  const addOf = new Map<Instruction, Instruction>();
  for (const instruction of graph.instructions) {
    const [sum, weight] = operands(instruction);
    const add = instruction.op === 'rmsNorm' ? unread.get(sum) : undefined;
    if (add && weight !== sum) addOf.set(instruction, add);
    for (const value of operands(instruction)) unread.delete(value);
    if (isSum(instruction, graph)) unread.set(instruction.results[0], instruction);
  }
  return addOf;
}

const floats: ReadonlySet<Dtype> = new Set(['float32', 'float16', 'bfloat16']);

/** Of arrays of one shape and dtype, as the op wants them. */
function isSum({ op, args }: Instruction, { types }: Graph): boolean {
  if (op !== 'add') return false;
  const [x, residual] = args.map((arg) => types.get(operand(arg) ?? -1));
  return (
    x !== undefined &&
    residual?.dtype === x.dtype &&
    floats.has(x.dtype) &&
    x.shape.length === residual.shape.length &&
    x.shape.every((size, i) => sameSize(size, residual.shape[i]))
  );
}
