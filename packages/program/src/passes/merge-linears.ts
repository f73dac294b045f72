/** Linear layers of one input, such as the projections of an attention, become one. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  nextValue,
  operand,
  operands,
  type Argument,
  type ArrayType,
  type Graph,
  type Instruction,
  type NamedValue,
} from '../graph.js';
import type { Constants, Pass } from './pass.js';

// Queries, keys, values and a gate. Wider products gain nothing, and their whole result is held at once.
const mostMembers = 4;

interface Member {
  instruction: Instruction;
  x: number;
  weight: number;
  bias: number | undefined;
  /** Of its results. */
  width: number;
}

/**
 * `linear(x, w₁), linear(x, w₂) …` becomes one with the rows of all weights, whose result is cut. Weights that
 * something else reads too stay as they are, since they would be stored twice.
 */
export const mergeLinears: Pass = (graph, constants) => {
  const groups = groupsOf(graph);
  const firsts = new Map(groups.map((group) => [group[0].instruction, group]));
  const merged = new Set(groups.flatMap((group) => group.map(({ instruction }) => instruction)));
  const merger = new Merger(graph, constants);
  const instructions = graph.instructions.flatMap((instruction) => {
    const group = firsts.get(instruction);
    if (group) return merger.merge(group);
    return merged.has(instruction) ? [] : [instruction];
  });
  const { types, added } = merger;
  return { ...graph, instructions, types, constants: [...graph.constants, ...added] };
};

/** What can be merged: at least two of one input each. */
function groupsOf(graph: Graph): Member[][] {
  const constants = new Set(graph.constants.map(({ value }) => value));
  const byInput = new Map<string, Member[]>();
  for (const instruction of graph.instructions) {
    const member = memberOf(instruction, graph, constants);
    if (!member) continue;
    const { dtype, shape } = graph.types.get(member.weight)!;
    const key = JSON.stringify([member.x, dtype, shape[1]]);
    byInput.set(key, [...(byInput.get(key) ?? []), member]);
  }
  const groups = [...byInput.values()].flatMap(cut).filter((group) => group.length > 1);
  const shared = readElsewhere(graph, groups);
  return groups.filter((group) => !group.some(({ weight }) => shared.has(weight)));
}

function memberOf(
  instruction: Instruction,
  { types }: Graph,
  constants: ReadonlySet<number>,
): Member | undefined {
  if (instruction.op !== 'linear') return undefined;
  const [x, weight, bias] = [0, 1, 2].map((i) => operand(instruction.args[i]));
  if (x === undefined || weight === undefined) return undefined;
  const parts = bias === undefined ? [weight] : [weight, bias];
  const { dtype, shape } = types.get(x)!;
  const alike = parts.every((part) => constants.has(part) && types.get(part)!.dtype === dtype);
  const width = types.get(weight)!.shape[0];
  if (!alike || shape.length === 0 || typeof width !== 'number') return undefined;
  return { instruction, x, weight, bias, width };
}

function cut(members: readonly Member[]): Member[][] {
  const count = Math.ceil(members.length / mostMembers);
  return Array.from({ length: count }, (_, i) =>
    members.slice(i * mostMembers, (i + 1) * mostMembers),
  );
}

/** Weights that not only groups of the very same weights read, as those of a layer that is run again are. */
function readElsewhere(graph: Graph, groups: readonly (readonly Member[])[]): Set<number> {
  const companies = new Map<number, string>();
  const shared = new Set<number>();
  const weightOf = new Map<Instruction, number>();
  for (const group of groups) {
    const company = group.map(({ weight, bias }) => [weight, bias]).join();
    for (const { instruction, weight } of group) {
      weightOf.set(instruction, weight);
      if ((companies.get(weight) ?? company) !== company) shared.add(weight);
      companies.set(weight, company);
    }
  }
  const results = [...graph.outputs.map(({ value }) => value), ...graph.states.map((s) => s.next)];
  for (const value of results) shared.add(value);
  for (const instruction of graph.instructions) {
    for (const value of operands(instruction)) {
      if (value !== weightOf.get(instruction)) shared.add(value);
    }
  }
  return shared;
}

class Merger {
  readonly types: Map<number, ArrayType>;
  readonly added: NamedValue[] = [];
  readonly #constants: Constants;
  readonly #names: ReadonlyMap<number, string>;
  #next: number;

  constructor(graph: Graph, constants: Constants) {
    this.types = new Map(graph.types);
    this.#constants = constants;
    this.#names = new Map(graph.constants.map(({ name, value }) => [value, name]));
    this.#next = nextValue(graph);
  }

  merge(group: readonly Member[]): Instruction[] {
    const [{ instruction, x }] = group;
    const { dtype, shape } = this.types.get(x)!;
    const weight = this.#joined(
      group.map((member) => this.#array(member.weight)!),
      group[0].weight,
    );
    const args: Argument[] = [{ array: x }, { array: weight }];
    const biased = group.find(({ bias }) => bias !== undefined);
    if (biased) {
      const biases = group.map(({ bias, width }) => this.#array(bias) ?? mx.zeros([width], dtype));
      args.push({ array: this.#joined(biases, biased.bias!) });
    }
    const width = group.reduce((sum, member) => sum + member.width, 0);
    const whole = this.#value({ dtype, shape: [...shape.slice(0, -1), width] });
    const ends = group.map((_, i) =>
      group.slice(0, i + 1).reduce((sum, member) => sum + member.width, 0),
    );
    return [
      { ...instruction, args, results: [whole] },
      {
        op: 'splitAt',
        args: [{ array: whole }, { list: ends.slice(0, -1) }, shape.length - 1],
        results: group.map((member) => member.instruction.results[0]),
        source: instruction.source,
      },
    ];
  }

  #array(value: number | undefined): MxArray | undefined {
    return value === undefined ? undefined : this.#constants.get(this.#names.get(value)!);
  }

  #joined(arrays: readonly MxArray[], first: number): number {
    const joined = mx.concatenate(arrays, 0);
    mx.evalSync(joined);
    const name = `${this.#names.get(first)!}+${arrays.length - 1}`;
    const value = this.#value({ dtype: joined.dtype, shape: joined.shape });
    this.added.push({ name: this.#constants.add(joined, name), value });
    return value;
  }

  #value(type: ArrayType): number {
    this.types.set(this.#next, type);
    return this.#next++;
  }
}
