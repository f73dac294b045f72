/**
 * Rotary embeddings (Su et al. 2021) written op by op, as Hugging Face's models have them:
 *
 *     angles = outer(arange(offset, offset + T), inverseFrequencies); both = concatenate([angles, angles], -1)
 *     y = x · cos(both) + concatenate([−x₂, x₁], -1) · sin(both), where x₁ and x₂ are the halves of x
 */
import { mx, type Dtype } from '@mlx-runners/mlx-core';
import { operand, type Argument, type Graph, type Instruction, type NamedValue } from '../graph.js';
import { sameSize, type Size } from '../sizes.js';
import type { Pass } from './pass.js';
import { producers } from './replacements.js';

interface Rotation {
  x: number;
  /** The position of the first row. */
  offset: Argument;
  /** A constant [dims / 2]. */
  inverseFrequencies: number;
  /** Positions. */
  rows: Size;
}

export const fuseRope: Pass = (graph, constants) => {
  const finder = new RotationFinder(graph);
  const names = new Map(graph.constants.map(({ name, value }) => [value, name]));
  const types = new Map(graph.types);
  const added: NamedValue[] = [];
  // The op takes the reciprocals; many rotations have the same.
  const reciprocals = new Map<number, number>();
  const reciprocalOf = (value: number): number => {
    let made = reciprocals.get(value);
    if (made === undefined) {
      const name = names.get(value)!;
      const array = constants.get(name).reciprocal();
      mx.evalSync(array);
      made = Math.max(...types.keys()) + 1;
      types.set(made, { dtype: array.dtype, shape: array.shape });
      added.push({ name: constants.add(array, `${name}.reciprocal`), value: made });
      reciprocals.set(value, made);
    }
    return made;
  };
  const instructions = graph.instructions.map((instruction): Instruction => {
    const rotation = finder.find(instruction);
    if (!rotation) return instruction;
    const { x, offset, inverseFrequencies } = rotation;
    const dims = graph.types.get(x)!.shape.at(-1) as number;
    const freqs = { array: reciprocalOf(inverseFrequencies) };
    return {
      ...instruction,
      op: 'rope',
      args: [{ array: x }, dims, false, null, 1, offset, freqs],
    };
  });
  return { ...graph, instructions, types, constants: [...graph.constants, ...added] };
};

const exactPositions: readonly Dtype[] = ['int32', 'int64', 'float32'];

class RotationFinder {
  readonly #graph: Graph;
  readonly #made: Map<number, Instruction>;
  readonly #constants: Set<number>;

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#made = producers(graph);
    this.#constants = new Set(graph.constants.map(({ value }) => value));
  }

  find(root: Instruction): Rotation | undefined {
    if (root.op !== 'add') return undefined;
    for (const [straight, turned] of bothOrders(root)) {
      const rotation = this.#sum(this.#call(straight, 'multiply'), this.#call(turned, 'multiply'));
      if (rotation && this.#fits(rotation)) return rotation;
    }
    return undefined;
  }

  #sum(straight?: Instruction, turned?: Instruction): Rotation | undefined {
    if (!straight || !turned) return undefined;
    for (const [x, cosine] of bothOrders(straight)) {
      for (const [rotated, sine] of bothOrders(turned)) {
        const cos = this.#call(cosine, 'cos');
        const sin = this.#call(sine, 'sin');
        const isRotation = cos && sin && sameOperand(cos, sin) && this.#isTurned(rotated, x);
        const angles = isRotation ? this.#angles(operand(cos.args[0])) : undefined;
        if (angles && x !== undefined) return { x, ...angles };
      }
    }
    return undefined;
  }

  /** concatenate([−x₂, x₁], -1) */
  #isTurned(rotated: number | undefined, x: number | undefined): boolean {
    const [second, first] = this.#joined(rotated) ?? [];
    const negated = this.#call(second, 'negative');
    return (
      negated !== undefined &&
      this.#isHalf(operand(negated.args[0]), x, 1) &&
      this.#isHalf(first, x, 0)
    );
  }

  /** The first or second half of x along its last axis: of a split, or a slice. */
  #isHalf(half: number | undefined, x: number | undefined, which: 0 | 1): boolean {
    const made = half === undefined ? undefined : this.#made.get(half);
    if (!made || x === undefined || operand(made.args[0]) !== x) return false;
    const shape = this.#graph.types.get(x)!.shape;
    const size = shape.at(-1);
    if (typeof size !== 'number' || size % 2 !== 0) return false;
    if (made.op === 'split') {
      const [, parts, axis = 0] = made.args;
      return parts === 2 && isLast(axis, shape.length) && made.results[which] === half;
    }
    if (made.op !== 'slice' || made.args.length > 3) return false;
    const start = [...shape.slice(0, -1).map(() => 0), (which * size) / 2];
    const stop = [...shape.slice(0, -1), ((which + 1) * size) / 2];
    return isList(made.args[1], start) && isList(made.args[2], stop);
  }

  /** concatenate([angles, angles], -1) of angles = positions ⊗ inverse frequencies */
  #angles(value: number | undefined): Omit<Rotation, 'x'> | undefined {
    const [left, right] = this.#joined(value) ?? [];
    if (left === undefined || left !== right) return undefined;
    const product = this.#call(left, 'outer');
    const [positions, frequencies] = (product?.args ?? []).map(operand);
    if (frequencies === undefined || !this.#constants.has(frequencies)) return undefined;
    const range = this.#call(positions, 'arange') ?? this.#call(this.#uncast(positions), 'arange');
    const [offset = null, , step = 1] = range?.args ?? [];
    // Positions in a narrow dtype wrap or are rounded, which the op does not do.
    const isExact =
      [range?.results[0], positions].every((each) => this.#hasDtype(each, exactPositions)) &&
      [frequencies, left].every((each) => this.#hasDtype(each, ['float32']));
    return isExact && offset !== null && (step === 1 || step === null)
      ? { offset, inverseFrequencies: frequencies, rows: this.#graph.types.get(left)!.shape[0] }
      : undefined;
  }

  #hasDtype(value: number | undefined, dtypes: readonly Dtype[]): boolean {
    return value !== undefined && dtypes.includes(this.#graph.types.get(value)!.dtype);
  }

  #uncast(value: number | undefined): number | undefined {
    const cast = this.#call(value, 'astype');
    return cast && operand(cast.args[0]);
  }

  /** The two arrays that are joined along the last axis. */
  #joined(value: number | undefined): readonly [number, number] | undefined {
    const made = this.#call(value, 'concatenate');
    if (!made || value === undefined) return undefined;
    const [arrays, axis = 0] = made.args;
    const list =
      typeof arrays === 'object' && arrays !== null && 'arrays' in arrays ? arrays.arrays : [];
    const axes = this.#graph.types.get(value)!.shape.length;
    return list.length === 2 && isLast(axis, axes) ? [list[0], list[1]] : undefined;
  }

  #call(value: number | undefined, op: string): Instruction | undefined {
    const made = value === undefined ? undefined : this.#made.get(value);
    return made?.op === op ? made : undefined;
  }

  /** One angle for each row of x and pair of its columns. */
  #fits({ x, inverseFrequencies, rows }: Rotation): boolean {
    const { shape, dtype } = this.#graph.types.get(x)!;
    const [pairs] = this.#graph.types.get(inverseFrequencies)!.shape;
    const dims = shape.at(-1);
    return (
      shape.length >= 3 &&
      sameSize(shape.at(-2), rows) &&
      dtype === 'float32' &&
      typeof dims === 'number' &&
      dims === Number(pairs) * 2
    );
  }
}

function bothOrders({ args }: Instruction): [number | undefined, number | undefined][] {
  const [a, b] = args.map(operand);
  return [
    [a, b],
    [b, a],
  ];
}

function sameOperand(a: Instruction, b: Instruction): boolean {
  return operand(a.args[0]) === operand(b.args[0]);
}

function isLast(axis: Argument, axes: number): boolean {
  return axis === -1 || axis === axes - 1;
}

function isList(arg: Argument | undefined, sizes: readonly Size[]): boolean {
  const list = typeof arg === 'object' && arg !== null && 'list' in arg ? arg.list : [];
  return JSON.stringify(list) === JSON.stringify(sizes);
}
