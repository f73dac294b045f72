import type { Dtype } from '@mlx-runners/mlx-core';
import type { Instruction } from '../graph.js';
import type { Pass } from './pass.js';
import { producers, withKnownValues } from './replacements.js';

/** The dtypes that hold every value of another exactly. */
const widerThan: Partial<Record<Dtype, readonly Dtype[]>> = {
  bool_: [
    ...(['uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32', 'int64'] as const),
    ...(['float16', 'bfloat16', 'float32', 'float64'] as const),
  ],
  uint8: ['uint16', 'uint32', 'uint64', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64'],
  int8: ['int16', 'int32', 'int64', 'float16', 'float32', 'float64'],
  uint16: ['uint32', 'uint64', 'int32', 'int64', 'float32', 'float64'],
  int16: ['int32', 'int64', 'float32', 'float64'],
  uint32: ['uint64', 'int64', 'float64'],
  int32: ['int64', 'float64'],
  float16: ['float32', 'float64'],
  bfloat16: ['float32', 'float64'],
  float32: ['float64'],
};

/**
 * Casts to the dtype that there is already disappear, and of two casts in a row the first does, when it
 * loses nothing.
 */
export const foldCasts: Pass = (graph) => {
  const typeOf = (value: number): Dtype => graph.types.get(value)!.dtype;
  const made = producers(graph);
  // From the source of all lossless casts before it.
  const instructions = graph.instructions.map((instruction): Instruction => {
    if (!isCast(instruction)) return instruction;
    let source = castOperand(instruction);
    for (let before = made.get(source); before && isCast(before); before = made.get(source)) {
      const earlier = castOperand(before);
      if (!widerThan[typeOf(earlier)]?.includes(typeOf(source))) break;
      source = earlier;
    }
    return { ...instruction, args: [{ array: source }, instruction.args[1]] };
  });
  return withKnownValues({ ...graph, instructions }, (instruction) => {
    if (!isCast(instruction)) return undefined;
    const source = castOperand(instruction);
    return typeOf(source) === typeOf(instruction.results[0]) ? [source] : undefined;
  });
};

function isCast({ op }: Instruction): boolean {
  return op === 'astype';
}

function castOperand({ args: [arg] }: Instruction): number {
  return (arg as { array: number }).array;
}
