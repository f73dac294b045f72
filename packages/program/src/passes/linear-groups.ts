/** Linear layers of one input, which passes make one instruction of. */
import type { Graph, Instruction } from '../graph.js';

// Queries, keys, values and a gate. Wider products gain nothing, and their results are held at once.
const mostMembers = 4;
// Results are not held from one layer of a model to the next.
const mostInstructionsApart = 16;

export interface Member {
  instruction: Instruction;
  /** What those have in common that can be merged. */
  key: string;
}

/** What can be merged: at least two, close together. */
export function groupsOf<T extends Member>(
  { instructions }: Graph,
  memberOf: (instruction: Instruction) => T | undefined,
): T[][] {
  const groups: T[][] = [];
  const open = new Map<string, { first: number; members: T[] }>();
  for (const [at, instruction] of instructions.entries()) {
    const member = memberOf(instruction);
    if (!member) continue;
    const group = open.get(member.key);
    const isNear = group && at - group.first <= mostInstructionsApart;
    if (isNear && group.members.length < mostMembers) {
      group.members.push(member);
      continue;
    }
    const members = [member];
    open.set(member.key, { first: at, members });
    groups.push(members);
  }
  return groups.filter(({ length }) => length > 1);
}

/** The instructions with those of `merge` in the place of the first of each group. */
export function withGroupsMerged<T extends Member>(
  { instructions }: Graph,
  groups: readonly T[][],
  merge: (group: readonly T[]) => readonly Instruction[],
): Instruction[] {
  const firsts = new Map(groups.map((group) => [group[0].instruction, group]));
  const merged = new Set(groups.flatMap((group) => group.map(({ instruction }) => instruction)));
  return instructions.flatMap((instruction) => {
    const group = firsts.get(instruction);
    if (group) return merge(group);
    return merged.has(instruction) ? [] : [instruction];
  });
}
