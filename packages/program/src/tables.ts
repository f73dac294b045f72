/** From program files to the tables of the interpreter: native/program/tables.cpp reads them. */
import { ProgramError, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { printable, quoted } from '@mlx-runners/mlx-core/errors';
import {
  dtypeNumber,
  interned,
  Kind,
  opRows,
  Tag,
  type OpParam,
  type OpRow,
  type ProgramTables,
} from '@mlx-runners/mlx-core/program';
import type { ArgumentFile, ProgramFile, TraceFile } from './format.js';
import { loweredMethod, type LoweredMethod } from './lowered-method.js';
import { formatSize, type Size, type SizeOperator } from './sizes.js';

/** As in native/program/sizes.h. */
const sizeOperators: Record<SizeOperator | 'constant' | 'dimension', number> = {
  constant: 0,
  dimension: 1,
  '+': 2,
  '*': 3,
  '//': 4,
  max: 5,
};

export interface LoweredProgram {
  tables: ProgramTables;
  methods: Map<string, LoweredMethod>;
}

type States = Readonly<Record<string, { dtype: Dtype; shape: readonly number[] }>>;

/**
 * @param constants by name; must be computed
 * @throws ProgramError for ops, constants, states or dimensions that there are not
 */
export function lower(
  programs: readonly ProgramFile[],
  states: States,
  constants: ReadonlyMap<string, MxArray>,
): LoweredProgram {
  const lowering = new Lowering(states, constants);
  return lowering.lower(programs);
}

class Lowering {
  readonly #words: number[] = [];
  readonly #values: { tag: number; size: number; number: number }[] = [];
  readonly #lists: number[] = [];
  readonly #texts = new Map<string, number>();
  readonly #states: States;
  readonly #stateNumbers: Map<string, number>;
  readonly #constants: ReadonlyMap<string, MxArray>;
  readonly #constantNumbers: Map<string, number>;
  readonly #ops = new Map(opRows().map((row, number) => [row.name, { row, number }]));

  constructor(states: States, constants: ReadonlyMap<string, MxArray>) {
    this.#states = states;
    this.#stateNumbers = numbered(Object.keys(states));
    this.#constants = constants;
    this.#constantNumbers = numbered([...constants.keys()]);
  }

  lower(programs: readonly ProgramFile[]): LoweredProgram {
    const methods: LoweredProgram['methods'] = new Map();
    this.#list(Object.entries(this.#states), ([name, { dtype, shape }]) => {
      this.#words.push(this.#text(name), dtypeNumber(dtype)!);
      this.#list(shape, (size) => this.#words.push(size));
    });
    this.#list(programs, (program, number) => {
      const method = loweredMethod(program, number);
      methods.set(program.method, method);
      const { inputs, dimensions } = method;
      this.#words.push(this.#text(program.method));
      this.#list(inputs, (name) => this.#words.push(this.#text(name)));
      this.#list(dimensions, ({ name }) => this.#words.push(this.#text(name)));
      this.#list(program.traces, (trace) => this.#trace(program, trace));
    });
    return { tables: this.#tables(), methods };
  }

  #tables(): ProgramTables {
    const values = new ArrayBuffer(this.#values.length * 16);
    const tags = new Uint32Array(values);
    const numbers = new Float64Array(values);
    for (const [i, { tag, size, number }] of this.#values.entries()) {
      tags[4 * i] = tag;
      tags[4 * i + 1] = size;
      numbers[2 * i + 1] = number;
    }
    return {
      words: Float64Array.from(this.#words),
      values,
      lists: Float64Array.from(this.#lists),
      texts: [...this.#texts.keys()],
      constants: [...this.#constants.values()],
    };
  }

  #text(text: string): number {
    if (!this.#texts.has(text)) this.#texts.set(text, this.#texts.size);
    return this.#texts.get(text)!;
  }

  #list<T>(list: readonly T[], write: (element: T, number: number) => void): void {
    this.#words.push(list.length);
    for (const [number, element] of list.entries()) write(element, number);
  }

  #trace(program: ProgramFile, trace: TraceFile): void {
    const words = this.#words;
    const sizes = new SizeNumbers(Object.keys(trace.dimensions));
    const patches: number[][] = [];
    // Arguments before words, since these start with all sizes.
    const typed = ({ dtype, shape }: { dtype: Dtype; shape: readonly Size[] }): number[] => [
      dtypeNumber(dtype)!,
      shape.length,
      ...shape.map((size) => sizes.number(size)),
    ];
    const slots = (list: TraceFile['inputs']): number[][] =>
      list.map((each) => [each.slot, ...typed(each)]);
    const inputs = slots(trace.inputs);
    const outputs = slots(trace.outputs);
    const limits = trace.limits.map(({ size, max }) => [
      sizes.number(size),
      max,
      this.#text(printable(formatSize(size), 100)),
    ]);
    const instructions = trace.instructions.map(({ op, args, results, source }) => {
      const text = program.sources[source];
      if (text === undefined) {
        throw new ProgramError(`${program.method}: there is no source ${source}.`);
      }
      const found = this.#ops.get(op);
      if (!found) {
        throw new ProgramError(
          `${program.method}: there is no op ${quoted(op)} (at ${text}). Was it exported by a newer version?`,
        );
      }
      const firstValue = this.#values.length;
      args.forEach((arg, position) => {
        const context = `${program.method}, ${op} at ${text}`;
        this.#argument(arg, this.#param(found.row, position, context), sizes, patches);
      });
      return [
        found.number,
        firstValue,
        args.length,
        this.#text(text),
        results.length,
        ...results.flatMap((each) => [each.slot, ...typed(each)]),
      ];
    });
    for (const { min, max, multipleOf = 1 } of Object.values(trace.dimensions)) {
      words.push(min, max, multipleOf);
    }
    this.#list(sizes.nodes, (node) => append(words, node));
    this.#list(limits, (limit) => append(words, limit));
    words.push(trace.slots);
    this.#list(inputs, (input) => append(words, input));
    this.#list(trace.states, ({ name, slot, next }) =>
      words.push(numberOf(this.#stateNumbers, 'state', name), slot, next),
    );
    this.#list(trace.constants, ({ name, slot }) =>
      words.push(numberOf(this.#constantNumbers, 'constant', name), slot),
    );
    this.#list(outputs, (output) => append(words, output));
    this.#list(patches, (patch) => append(words, patch));
    this.#list(instructions, (instruction) => append(words, instruction));
  }

  #param(row: OpRow, position: number, context: string): OpParam {
    const param = row.params[position];
    if (!param) throw new ProgramError(`${context}: the op takes ${row.params.length} arguments.`);
    return param;
  }

  #value(tag: number, number: number, size = 0): void {
    this.#values.push({ tag, size, number });
  }

  #argument(arg: ArgumentFile, param: OpParam, sizes: SizeNumbers, patches: number[][]): void {
    if (arg === null) this.#value(Tag.none, 0);
    else if (typeof arg === 'number') this.#number(arg);
    else if (typeof arg === 'boolean') this.#value(Tag.bool, Number(arg));
    else if (typeof arg === 'string') this.#string(arg, param);
    else if ('slot' in arg) this.#value(Tag.array, arg.slot);
    else if ('slots' in arg) {
      this.#value(Tag.arrays, this.#lists.length, arg.slots.length);
      append(this.#lists, arg.slots);
    } else if ('number' in arg) this.#number(Number(arg.number));
    else if ('size' in arg) {
      patches.push([0, this.#values.length, sizes.number(arg.size)]);
      this.#value(Tag.int, 0);
    } else {
      this.#value(Tag.ints, this.#lists.length, arg.list.length);
      for (const size of arg.list) {
        if (typeof size !== 'number') patches.push([1, this.#lists.length, sizes.number(size)]);
        this.#lists.push(typeof size === 'number' ? size : 0);
      }
    }
  }

  #number(value: number): void {
    this.#value(Number.isInteger(value) ? Tag.int : Tag.float, value);
  }

  #string(text: string, param: OpParam): void {
    const dtype = param.kind === Kind.dtype ? dtypeNumber(text) : undefined;
    if (dtype === undefined) this.#value(Tag.string, interned(text));
    else this.#value(Tag.dtype, dtype);
  }
}

/** The sizes of a trace, each once, after those that it is computed from. */
class SizeNumbers {
  readonly nodes: [operator: number, a: number, b: number][] = [];
  readonly #dimensions: Map<string, number>;
  readonly #numbers = new Map<string, number>();

  constructor(dimensions: readonly string[]) {
    this.#dimensions = numbered(dimensions);
  }

  number(size: Size): number {
    const key = JSON.stringify(size);
    let number = this.#numbers.get(key);
    if (number === undefined) {
      const node = this.#node(size);
      number = this.nodes.push(node) - 1;
      this.#numbers.set(key, number);
    }
    return number;
  }

  #node(size: Size): [number, number, number] {
    if (typeof size === 'number') return [sizeOperators.constant, size, 0];
    if (typeof size === 'string') {
      return [sizeOperators.dimension, numberOf(this.#dimensions, 'dimension', size), 0];
    }
    return [sizeOperators[size[0]], this.number(size[1]), this.number(size[2])];
  }
}

/** Any number of them, which a spread would put on the stack. */
function append(words: number[], more: readonly number[]): void {
  for (const word of more) words.push(word);
}

function numbered(names: readonly string[]): Map<string, number> {
  return new Map(names.map((name, number) => [name, number]));
}

function numberOf(numbers: ReadonlyMap<string, number>, what: string, name: string): number {
  const number = numbers.get(name);
  if (number === undefined) throw new ProgramError(`There is no ${what} ${quoted(name)}.`);
  return number;
}
