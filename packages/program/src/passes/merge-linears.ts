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
import { groupsOf, withGroupsMerged, type Member } from './linear-groups.js';
import type { Constants, Pass } from './pass.js';

interface LinearMember extends Member {
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
  const groups = unsharedGroups(graph);
  const merger = new Merger(graph, constants);
  const instructions = withGroupsMerged(graph, groups, (group) => merger.merge(group));
  const { types, added } = merger;
  return { ...graph, instructions, types, constants: [...graph.constants, ...added] };
};

function unsharedGroups(graph: Graph): LinearMember[][] {
  const constants = new Set(graph.constants.map(({ value }) => value));
  const groups = groupsOf(graph, (instruction) => memberOf(instruction, graph, constants));
  const shared = readElsewhere(graph, groups);
  return groups.filter((group) => !group.some(({ weight }) => shared.has(weight)));
}

function memberOf(
  instruction: Instruction,
  { types }: Graph,
  constants: ReadonlySet<number>,
): LinearMember | undefined {
  if (instruction.op !== 'linear') return undefined;
  const [x, weight, bias] = [0, 1, 2].map((i) => operand(instruction.args[i]));
  if (x === undefined || weight === undefined) return undefined;
  const parts = bias === undefined ? [weight] : [weight, bias];
  const { dtype, shape } = types.get(x)!;
  const alike = parts.every((part) => constants.has(part) && types.get(part)!.dtype === dtype);
  const [width, depth] = types.get(weight)!.shape;
  if (!alike || shape.length === 0 || typeof width !== 'number') return undefined;
  const key = JSON.stringify([x, types.get(weight)!.dtype, depth]);
  return { instruction, key, x, weight, bias, width };
}

/** Weights that not only groups of the very same weights read, as those of a layer that is run again are. */
function readElsewhere(graph: Graph, groups: readonly (readonly LinearMember[])[]): Set<number> {
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

  merge(group: readonly LinearMember[]): Instruction[] {
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
