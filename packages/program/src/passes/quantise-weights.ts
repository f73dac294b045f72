import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import {
  nextValue,
  operand,
  type Argument,
  type ArrayType,
  type Graph,
  type Instruction,
  type NamedValue,
} from '../graph.js';
import type { Packing } from '../quantisation.js';
import type { Constants, Pass } from './pass.js';

export interface WeightPackings {
  /** Of matrices that linear layers multiply with. */
  linear?: Packing;
  /** Of tables of embeddings. */
  embedding?: Packing;
}

/**
 * The weights of linear layers and the tables of embeddings, quantised now. A table that linear layers multiply with
 * too, as tied ones are, is quantised once, as embeddings are, and stays as it is when these do. So do weights whose
 * rows are no whole groups, and those that something else reads.
 */
export function quantiseWeights(packings: WeightPackings): Pass {
  return (graph, constants) => new Rewriter(graph, constants, packings).rewrite();
}

/** How an instruction reads a weight. */
interface Use {
  role: 'linear' | 'embedding';
  /** Which argument it is. */
  position: number;
}

class Rewriter {
  readonly #graph: Graph;
  readonly #constants: Constants;
  readonly #packings: WeightPackings;
  readonly #types: Map<number, ArrayType>;
  readonly #names: Map<number, string>;
  readonly #added: NamedValue[] = [];
  readonly #parts = new Map<number, readonly number[]>();
  #next: number;

  constructor(graph: Graph, constants: Constants, packings: WeightPackings) {
    this.#graph = graph;
    this.#constants = constants;
    this.#packings = packings;
    this.#types = new Map(graph.types);
    this.#next = nextValue(graph);
    this.#names = new Map(graph.constants.map(({ name, value }) => [value, name]));
  }

  rewrite(): Graph {
    const packings = this.#packingsOfWeights();
    const instructions = this.#graph.instructions.flatMap((instruction): Instruction[] => {
      const use = useOf(instruction);
      const weight = use && operand(instruction.args[use.position]);
      const packing = weight === undefined ? undefined : packings.get(weight);
      if (!use || weight === undefined || !packing) return [instruction];
      return use.role === 'linear'
        ? [this.#quantisedLinear(instruction, weight, packing)]
        : this.#quantisedTake(instruction, weight, packing);
    });
    const constants = [...this.#graph.constants, ...this.#added];
    return { ...this.#graph, instructions, constants, types: this.#types };
  }

  /** The packings of those constants that are quantised. */
  #packingsOfWeights(): Map<number, Packing> {
    const roles = new Map<number, Use['role'] | 'other'>();
    const note = (value: number, role: Use['role'] | 'other'): void => {
      const before = roles.get(value);
      // Tied ones are tables.
      if (before === undefined || role === 'other') roles.set(value, role);
      else if (before === 'linear') roles.set(value, role);
    };
    for (const instruction of this.#graph.instructions) {
      const use = useOf(instruction);
      for (const [position, arg] of instruction.args.entries()) {
        if (typeof arg !== 'object' || arg === null) continue;
        if ('arrays' in arg) for (const value of arg.arrays) note(value, 'other');
        if (!('array' in arg)) continue;
        const isUse = position === use?.position && this.#isAlike(instruction, use, arg.array);
        note(arg.array, isUse ? use.role : 'other');
      }
    }
    for (const { value } of this.#graph.outputs) note(value, 'other');
    for (const { next } of this.#graph.states) note(next, 'other');
    const found = new Map<number, Packing>();
    for (const [value, role] of roles) {
      const packing = role === 'other' ? undefined : this.#packings[role];
      if (packing && this.#names.has(value) && this.#fits(value, role, packing)) {
        found.set(value, packing);
      }
    }
    return found;
  }

  /** Whether the result has the dtype that it would have of a weight that is not quantised. */
  #isAlike({ args }: Instruction, { role }: Use, weight: number): boolean {
    if (role === 'embedding') return true;
    return this.#types.get(operand(args[0])!)!.dtype === this.#types.get(weight)!.dtype;
  }

  #fits(value: number, role: string, { groupSize }: Packing): boolean {
    const { dtype, shape } = this.#types.get(value)!;
    const [rows, inputs] = shape;
    if (shape.length !== 2 || !floats.has(dtype)) return false;
    if (typeof rows !== 'number' || typeof inputs !== 'number' || inputs === 0) return false;
    // The op takes rows of so many.
    const multiple = role === 'embedding' ? Math.max(groupSize, 32) : groupSize;
    return inputs % multiple === 0;
  }

  #quantisedLinear(instruction: Instruction, weight: number, packing: Packing): Instruction {
    const [x, , bias = null] = instruction.args;
    const args = [x, ...this.#partsOf(weight, packing), bias, ...numbersOf(packing)];
    return { ...instruction, op: 'quantizedLinear', args };
  }

  /** Its rows are float32; a table may have been of another dtype. */
  #quantisedTake(instruction: Instruction, weight: number, packing: Packing): Instruction[] {
    const [, ids] = instruction.args;
    const args = [...this.#partsOf(weight, packing), ids, ...numbersOf(packing)];
    const [result] = instruction.results;
    const { dtype, shape } = this.#types.get(result)!;
    const op = 'quantizedTake';
    if (dtype === 'float32') return [{ ...instruction, op, args }];
    const rows = this.#newValue({ dtype: 'float32', shape });
    return [
      { ...instruction, op, args, results: [rows] },
      { ...instruction, op: 'astype', args: [{ array: rows }, dtype] },
    ];
  }

  /** Codes, scales and biases, of which modes without biases have none. */
  #partsOf(weight: number, { mode, groupSize, bits }: Packing): Argument[] {
    let parts = this.#parts.get(weight);
    if (!parts) {
      const name = this.#names.get(weight)!;
      const quantised = mx.quantize(this.#constants.get(name), groupSize, bits, mode);
      mx.evalSync(...quantised);
      parts = quantised.map((part, i) => this.#constant(part, `${name}.${partNames[i]}`));
      this.#parts.set(weight, parts);
    }
    return partNames.map((_, i) => (i < parts.length ? { array: parts[i] } : null));
  }

  #constant(array: MxArray, name: string): number {
    const value = this.#newValue({ dtype: array.dtype, shape: array.shape });
    this.#added.push({ name: this.#constants.add(array, name), value });
    return value;
  }

  #newValue(type: ArrayType): number {
    this.#types.set(this.#next, type);
    return this.#next++;
  }
}

const partNames = ['codes', 'scales', 'biases'];
const floats: ReadonlySet<Dtype> = new Set(['float32', 'float16', 'bfloat16']);

function useOf({ op, args }: Instruction): Use | undefined {
  if (op === 'linear') return { role: 'linear', position: 1 };
  return op === 'take' && args[2] === 0 ? { role: 'embedding', position: 0 } : undefined;
}

/** The last arguments of ops on quantised weights, without those that are the default. */
function numbersOf({ mode, groupSize, bits }: Packing): Argument[] {
  return mode === 'affine' ? [groupSize, bits] : [groupSize, bits, mode];
}
