/**
 * Patterns of instructions, and their replacement by one that does the same:
 *
 *     call('multiply', any('x'), call('rsqrt', any('y')))
 *
 * The arguments of ops that commute match in either order. What lies between the leaves and the root must
 * not be used elsewhere, since it would have to be computed all the same.
 */
import type { Dtype } from '@mlx-runners/mlx-core';
import {
  countUses,
  operand,
  type Argument,
  type ArrayType,
  type Graph,
  type Instruction,
} from '../graph.js';
import type { Size } from '../sizes.js';
import { removeDeadCode } from './dead-code.js';
import type { Pass } from './pass.js';
import { producers } from './replacements.js';

export type Pattern =
  | { kind: 'any'; name: string }
  | { kind: 'is'; test: (arg: Argument) => boolean }
  | { kind: 'call'; op: string; args: readonly Pattern[] };

/** Whatever stands there; the same wherever the name comes again. */
export const any = (name: string): Pattern => ({ kind: 'any', name });
/** An argument that is not an instruction's result. */
export const is = (test: (arg: Argument) => boolean): Pattern => ({ kind: 'is', test });
export const call = (op: string, ...args: readonly Pattern[]): Pattern => ({
  kind: 'call',
  op,
  args,
});

export class Match {
  readonly graph: Graph;
  readonly #bound: ReadonlyMap<string, Argument>;

  constructor(graph: Graph, bound: ReadonlyMap<string, Argument>) {
    this.graph = graph;
    this.#bound = bound;
  }

  get(name: string): Argument {
    return this.#bound.get(name)!;
  }

  number(name: string): number | undefined {
    const arg = this.get(name);
    return typeof arg === 'number' ? arg : undefined;
  }

  /** The shape of an array argument. */
  shape(name: string): readonly Size[] {
    return this.#type(name)?.shape ?? [];
  }

  /** The dtype of an array argument. */
  dtype(name: string): Dtype | undefined {
    return this.#type(name)?.dtype;
  }

  #type(name: string): ArrayType | undefined {
    const value = operand(this.get(name));
    return value === undefined ? undefined : this.graph.types.get(value);
  }
}

export interface Fusion {
  pattern: Pattern;
  /** The call that does the same; nothing when this match is not one after all. */
  replace: (match: Match) => { op: string; args: readonly Argument[] } | undefined;
}

const commuting = new Set(['add', 'multiply', 'maximum', 'minimum']);

/** A pass that replaces what matches. */
export function fusing(fusions: readonly Fusion[]): Pass {
  return (graph) => {
    const roots = new Set(fusions.map(({ pattern }) => pattern.kind === 'call' && pattern.op));
    if (!graph.instructions.some(({ op }) => roots.has(op))) return graph;
    const matcher = new Matcher(graph);
    let fused = false;
    const instructions = graph.instructions.map((instruction): Instruction => {
      for (const { pattern, replace } of fusions) {
        for (const bound of matcher.matches(pattern, instruction)) {
          const replacement = replace(new Match(graph, bound));
          if (!replacement) continue;
          fused = true;
          return { ...instruction, ...replacement };
        }
      }
      return instruction;
    });
    // What was fused leaves behind what it took the place of, which would count as a use.
    return fused ? removeDeadCode({ ...graph, instructions }) : graph;
  };
}

type Bindings = ReadonlyMap<string, Argument>;

class Matcher {
  readonly #made: Map<number, Instruction>;
  readonly #uses: Map<number, number>;

  constructor(graph: Graph) {
    this.#made = producers(graph);
    this.#uses = countUses(graph);
  }

  *matches(pattern: Pattern, root: Instruction): Generator<Bindings> {
    if (pattern.kind === 'call') yield* this.#call(pattern, root, new Map());
  }

  *#call(
    { op, args }: Pattern & { kind: 'call' },
    instruction: Instruction,
    bound: Bindings,
  ): Generator<Bindings> {
    if (instruction.op !== op || instruction.results.length !== 1) return;
    if (instruction.args.length > args.length) return;
    yield* this.#args(args, instruction.args, 0, bound);
    if (commuting.has(op) && args.length === 2) {
      yield* this.#args(args, instruction.args.toReversed(), 0, bound);
    }
  }

  *#args(
    patterns: readonly Pattern[],
    args: readonly Argument[],
    from: number,
    bound: Bindings,
  ): Generator<Bindings> {
    if (from === patterns.length) {
      yield bound;
      return;
    }
    for (const next of this.#arg(patterns[from], args[from] ?? null, bound)) {
      yield* this.#args(patterns, args, from + 1, next);
    }
  }

  *#arg(pattern: Pattern, arg: Argument, bound: Bindings): Generator<Bindings> {
    if (pattern.kind === 'is') {
      if (pattern.test(arg)) yield bound;
    } else if (pattern.kind === 'any') {
      const before = bound.get(pattern.name);
      if (before === undefined) yield new Map([...bound, [pattern.name, arg]]);
      else if (JSON.stringify(before) === JSON.stringify(arg)) yield bound;
    } else if (typeof arg === 'object' && arg !== null && 'array' in arg) {
      const inner = this.#made.get(arg.array);
      const once = this.#uses.get(arg.array) === 1;
      if (inner && once) yield* this.#call(pattern, inner, bound);
    }
  }
}
