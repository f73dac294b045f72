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
import type { Constants, Pass } from './pass.js';

/** MLX's affine quantisation: groups along the inputs, each with a scale and a bias. */
export interface LinearQuantisation {
  bits: 4 | 8;
  groupSize: 32 | 64 | 128;
}

/**
 * The weights of linear layers, quantised now. Those whose inputs are no multiple of the group, and
 * those that something else reads too (embeddings), stay as they are.
 */
export function quantiseLinears({ bits, groupSize }: LinearQuantisation): Pass {
  return (graph, constants) => {
    const rewriter = new Rewriter(graph, constants, bits, groupSize);
    return rewriter.rewrite();
  };
}

class Rewriter {
  readonly #graph: Graph;
  readonly #constants: Constants;
  readonly #bits: number;
  readonly #groupSize: number;
  readonly #types: Map<number, ArrayType>;
  readonly #names: Map<number, string>;
  readonly #added: NamedValue[] = [];
  readonly #parts = new Map<number, readonly number[]>();
  #next: number;

  constructor(graph: Graph, constants: Constants, bits: number, groupSize: number) {
    this.#graph = graph;
    this.#constants = constants;
    this.#bits = bits;
    this.#groupSize = groupSize;
    this.#types = new Map(graph.types);
    this.#next = nextValue(graph);
    this.#names = new Map(graph.constants.map(({ name, value }) => [value, name]));
  }

  rewrite(): Graph {
    const others = new Set(this.#graph.instructions.flatMap((each) => this.#readOtherwise(each)));
    const instructions = this.#graph.instructions.map((instruction) => {
      const weight = this.#weightOf(instruction);
      return weight === undefined || others.has(weight)
        ? instruction
        : this.#quantised(instruction, weight);
    });
    const constants = [...this.#graph.constants, ...this.#added];
    return { ...this.#graph, instructions, constants, types: this.#types };
  }

  /** The constant that a linear layer multiplies with, if it can be quantised. */
  #weightOf({ op, args }: Instruction): number | undefined {
    const weight = operand(args[1]);
    if (op !== 'linear' || weight === undefined || !this.#names.has(weight)) return undefined;
    const { dtype, shape } = this.#types.get(weight)!;
    const inputs = shape[1];
    const fits = typeof inputs === 'number' && inputs > 0 && inputs % this.#groupSize === 0;
    // The result has the dtype of the input.
    const alike = this.#types.get(operand(args[0])!)!.dtype === dtype;
    return fits && alike && floats.has(dtype) ? weight : undefined;
  }

  #readOtherwise(instruction: Instruction): number[] {
    const weight = this.#weightOf(instruction);
    return instruction.args.flatMap((arg, i) => {
      const value = operand(arg);
      return value === undefined || (i === 1 && value === weight) ? [] : [value];
    });
  }

  #quantised({ args, results, source }: Instruction, weight: number): Instruction {
    const parts = this.#partsOf(weight).map((array) => ({ array }));
    const product: Argument[] = [args[0], ...parts, args[2] ?? null, this.#groupSize, this.#bits];
    return { op: 'quantizedLinear', args: product, results, source };
  }

  #partsOf(weight: number): readonly number[] {
    let parts = this.#parts.get(weight);
    if (!parts) {
      const name = this.#names.get(weight)!;
      const quantised = mx.quantize(this.#constants.get(name), this.#groupSize, this.#bits);
      mx.evalSync(...quantised);
      const names = ['codes', 'scales', 'biases'].map((part) => `${name}.${part}`);
      parts = quantised.map((part, i) => this.#constant(part, names[i]));
      this.#parts.set(weight, parts);
    }
    return parts;
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

const floats: ReadonlySet<Dtype> = new Set(['float32', 'float16', 'bfloat16']);
