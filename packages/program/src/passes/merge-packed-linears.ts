/** Packed linear layers of one input, such as the projections of an attention, become one instruction. */
import { operand, type Graph, type Instruction } from '../graph.js';
import { groupsOf, withGroupsMerged, type Member } from './linear-groups.js';
import type { Pass } from './pass.js';

/** By op: the one that takes lists of matrices, and which arguments are of a matrix. */
const severalOf: Readonly<Record<string, { op: string; parts: readonly number[] }>> = {
  blockLinear: { op: 'blockLinears', parts: [1, 3] },
  quantizedLinear: { op: 'quantizedLinears', parts: [1, 2, 3, 4] },
};

/** Weights stay as they are, so that it matters to nobody who else reads them. */
export const mergePackedLinears: Pass = (graph) => {
  const constants = new Set(graph.constants.map(({ value }) => value));
  const groups = groupsOf(graph, (instruction) => memberOf(instruction, graph, constants));
  return { ...graph, instructions: withGroupsMerged(graph, groups, merged) };
};

/** Those of one input and packing, which have the same parts. */
function memberOf(
  instruction: Instruction,
  { types }: Graph,
  constants: ReadonlySet<number>,
): Member | undefined {
  if (!Object.hasOwn(severalOf, instruction.op)) return undefined;
  const { op, parts } = severalOf[instruction.op];
  const shared = [...instruction.args];
  for (const part of parts) {
    const value = operand(shared[part]);
    if (value === undefined) continue;
    // What is computed may not be there yet where the first layer is.
    if (!constants.has(value)) return undefined;
    shared[part] = types.get(value)!.dtype;
  }
  while (shared.at(-1) === null) shared.pop();
  return { instruction, key: JSON.stringify([op, shared]) };
}

function merged(group: readonly Member[]): Instruction[] {
  const [{ instruction }] = group;
  const { op, parts } = severalOf[instruction.op];
  const args = instruction.args.map((arg, i) =>
    parts.includes(i) && arg !== null
      ? { arrays: group.map((member) => operand(member.instruction.args[i])!) }
      : arg,
  );
  const results = group.flatMap((member) => member.instruction.results);
  return [{ ...instruction, op, args, results }];
}
