/**
 * Changes of an exported program that leave it a program: other ops, operands, slots, numbers, sizes,
 * states. Most declare their results anew, so that they load and run.
 */
import { Kind, opRows, type OpRow } from '@mlx-runners/mlx-core/program';
import type { ProgramFile, Size } from '@mlx-runners/program';
import type { Mutation, Random } from '@mlx-runners/test-fixtures';
import { declareResults, type ArrayTypes } from './inference.js';

type Trace = ProgramFile['traces'][number];
type Instruction = Trace['instructions'][number];
type Argument = Instruction['args'][number];

/** Changes a trace where it has something of the kind. */
type Change = (trace: Trace, random: Random) => void;

/** How often a change is taken whatever comes of it: mostly a refusal. */
const undeclared = 0.1;

export function programMutations(constants: ArrayTypes, states: ArrayTypes): Mutation[] {
  return Object.entries(changes).map(([kind, change]) => ({
    kind,
    apply(file, random) {
      let program: ProgramFile;
      try {
        program = JSON.parse(file.toString('utf8')) as ProgramFile;
      } catch {
        return file;
      }
      const at = random.below(program.traces.length);
      const before = program.traces[at];
      for (let attempt = 0; attempt < 6; attempt++) {
        const trace = structuredClone(before);
        change(trace, random);
        program.traces[at] = trace;
        if (random.chance(undeclared)) break;
        const fits = declareResults(trace, constants, states);
        if (fits && JSON.stringify(trace) !== JSON.stringify(before)) break;
      }
      return Buffer.from(JSON.stringify(program));
    },
  }));
}

const changes: Record<string, Change> = {
  'an instruction removed'({ instructions }, random) {
    instructions.splice(random.below(instructions.length), 1);
  },
  'an instruction repeated'({ instructions }, random) {
    const at = random.below(instructions.length);
    const to = at + 1 + random.below(instructions.length - at);
    instructions.splice(to, 0, structuredClone(instructions[at]));
  },
  'two instructions exchanged'({ instructions }, random) {
    const at = random.below(instructions.length - 1);
    instructions.splice(at, 2, instructions[at + 1], instructions[at]);
  },
  'another op'({ instructions }, random) {
    const instruction = random.pick(instructions);
    const arrays = instruction.args.filter((arg) => isSlot(arg));
    const rows = opRows().filter((row) => arraysOf(row) === arrays.length && !row.many);
    if (arrays.length === 0 || rows.length === 0) return;
    const { name, params } = random.pick(rows);
    instruction.op = name;
    instruction.args = params.map((param) =>
      param.kind === Kind.array && !param.optional ? arrays.pop()! : value(param, random),
    );
  },
  'an instruction added': added,
  'several instructions added'(trace, random) {
    for (let left = 1 + random.below(6); left > 0; left--) added(trace, random);
  },
  'an operand exchanged'(trace, random) {
    const place = random.pick(places(trace, (arg) => isSlot(arg)));
    if (!place) return;
    place.list[place.at] = { slot: random.below(trace.slots) };
  },
  'a result in another slot'(trace, random) {
    const { results } = random.pick(trace.instructions);
    if (random.chance(0.5)) trace.slots += 1;
    random.pick(results).slot = random.below(trace.slots);
  },
  'a number changed'(trace, random) {
    const place = random.pick(numbers(trace));
    if (!place) return;
    const old = place.list[place.at] as number;
    const next = [old + 1, old - 1, -old, 0, -1, 2 * old, 1, 7, 65_536, 2 ** 31 - 1, 2 ** 31];
    place.list[place.at] = random.pick(next);
  },
  'a number that depends on a dimension'(trace, random) {
    const place = random.pick(numbers(trace));
    if (!place) return;
    place.list[place.at] = place.inList
      ? expression(trace, random)
      : { size: expression(trace, random) };
  },
  'a size of an input changed'(trace, random) {
    const input = random.pick(trace.inputs);
    input.shape[random.below(input.shape.length)] = expression(trace, random);
  },
  'a range of a dimension changed'({ dimensions }, random) {
    const dimension = random.pick(Object.values(dimensions));
    dimension.min = random.below(dimension.max + 1);
    dimension.max += random.below(3);
    if (random.chance(0.5)) dimension.multipleOf = 1 + random.below(3);
  },
  'a state that becomes something else'(trace, random) {
    if (trace.states.length === 0) return;
    random.pick(trace.states).next = random.below(trace.slots);
  },
  'states exchanged'({ states }, random) {
    if (states.length < 2) return;
    const [one, other] = [random.pick(states), random.pick(states)];
    const part = random.pick(['name', 'slot', 'next'] as const);
    const [first, second] = [one[part], other[part]];
    Object.assign(one, { [part]: second });
    Object.assign(other, { [part]: first });
  },
  'another output'(trace, random) {
    random.pick(trace.outputs).slot = random.below(trace.slots);
  },
  'a constant for an operand'(trace, random) {
    const place = random.pick(places(trace, (arg) => isSlot(arg)));
    if (!place || trace.constants.length === 0) return;
    place.list[place.at] = { slot: random.pick(trace.constants).slot };
  },
};

/** An instruction somewhere, of operands that there are, whose result takes the place of one of them. */
function added(trace: Trace, random: Random): void {
  const at = 1 + random.below(trace.instructions.length);
  const written = trace.instructions.slice(0, at).flatMap(({ results }) => results);
  const given: { slot: number }[] = [...trace.inputs, ...trace.constants, ...trace.states];
  const slot = (): Argument => ({
    slot: random.pick<{ slot: number }>(random.chance(0.6) ? written : given).slot,
  });
  const rows = opRows().filter((row) => arraysOf(row) > 0 && !row.many);
  const simple = [
    'add',
    'reshape',
    'sum',
    'negative',
    'transpose',
    'astype',
    'slice',
    'sliceUpdate',
  ];
  const wanted = random.chance(0.6) ? random.pick(simple) : undefined;
  const row = rows.find(({ name }) => name === wanted) ?? random.pick(rows);
  const args = row.params.map((param) =>
    param.kind === Kind.array && !param.optional ? slot() : value(param, random),
  );
  let result = trace.slots;
  if (random.chance(0.5)) result = random.pick(written).slot;
  else trace.slots += 1;
  const results = [{ slot: result, dtype: 'float32' as const, shape: [] }];
  trace.instructions.splice(at, 0, { op: row.name, args, results, source: 0 });
  if (random.chance(0.7)) random.pick(trace.outputs).slot = result;
}

type OpParam = OpRow['params'][number];

function value(param: OpParam, random: Random): Argument {
  if (param.optional && random.chance(0.7)) return null;
  const small = (): number => random.pick([-1, 0, 1, 2, 3]);
  switch (param.kind) {
    case Kind.arrays:
      return { slots: [0, 0] };
    case Kind.ints:
      return random.chance(0.3)
        ? { list: [-1] }
        : { list: Array.from({ length: random.below(5) }, small) };
    case Kind.axes:
      return random.chance(0.5) ? small() : { list: [random.pick([0, -1])] };
    case Kind.bool:
      return random.chance(0.5);
    case Kind.dtype:
      return random.pick(['float32', 'float16', 'int32', 'uint8', 'bool_', 'bfloat16', 'int64']);
    case Kind.string:
      return param.choices.length > 0 ? random.pick(param.choices) : 'Q8_0';
    default:
      return small();
  }
}

function arraysOf({ params }: OpRow): number {
  return params.filter(({ kind, optional }) => kind === Kind.array && !optional).length;
}

function isSlot(arg: Argument): arg is { slot: number } {
  return typeof arg === 'object' && arg !== null && 'slot' in arg;
}

interface Place {
  list: unknown[];
  at: number;
  inList: boolean;
}

function places({ instructions }: Trace, chosen: (arg: Argument) => boolean): Place[] {
  return instructions.flatMap(({ args }) =>
    args.flatMap((arg, at) => (chosen(arg) ? [{ list: args, at, inList: false }] : [])),
  );
}

/** Whole numbers among the arguments, alone or in lists. */
function numbers(trace: Trace): Place[] {
  const inLists = trace.instructions.flatMap(({ args }) =>
    args.flatMap((arg) => {
      if (typeof arg !== 'object' || arg === null || !('list' in arg)) return [];
      const list: unknown[] = arg.list;
      return list.map((_, at) => ({ list, at, inList: true }));
    }),
  );
  const alone = places(trace, (arg) => Number.isInteger(arg));
  return [...inLists, ...alone].filter(({ list, at }) => typeof list[at] === 'number');
}

function expression({ dimensions }: Trace, random: Random): Size {
  const leaf = (): Size =>
    random.chance(0.7) ? random.pick(Object.keys(dimensions)) : random.pick([-1, 0, 1, 2, 3, 1e6]);
  const whole = random.pick(['+', '*', '//', 'max'] as const);
  return random.chance(0.5) ? leaf() : [whole, leaf(), leaf()];
}
