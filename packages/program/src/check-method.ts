/** Whether a model describes its methods as `Method` says: JavaScript callers have no compiler. */
import { nearestName, printable, ProgramError, quoted } from '@mlx-runners/mlx-core/errors';
import { dtypeNames } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import type { Graph } from './graph.js';
import { tracesOf, type Method } from './method.js';
import { dimensionsOf, type Size } from './sizes.js';

const largest = 2 ** 31 - 1;

/** An object of just these keys. */
function strict<Shape extends z.ZodRawShape>(what: string, shape: Shape): z.ZodObject<Shape> {
  const keys = Object.keys(shape);
  return z.strictObject(shape, {
    error: (issue) => {
      if (issue.code !== 'unrecognized_keys') return `has to be ${what}`;
      const [unknown] = issue.keys;
      const nearest = nearestName(unknown, keys);
      const advice = nearest === undefined ? `there are ${keys.join(', ')}` : `is it ${nearest}?`;
      return `has no ${quoted(unknown)}: ${advice}`;
    },
  });
}

const whole = (from: number): z.ZodType<number> =>
  z.custom<number>(
    (value) => Number.isSafeInteger(value) && Number(value) >= from && Number(value) <= largest,
    { error: `has to be a whole number from ${from} to 2³¹ − 1` },
  );

const dtype = z.enum(dtypeNames, {
  error: ({ input }) => {
    const nearest = typeof input === 'string' ? nearestName(input, dtypeNames) : undefined;
    return `has to be a dtype such as ${nearest ?? 'float32'}, not ${quoted(input)}`;
  },
});

const listOf = <Element extends z.ZodType>(element: Element, what: string): z.ZodArray<Element> =>
  z.array(element, { error: `has to be a list of ${what}` });

const named = <Value extends z.ZodType>(
  value: Value,
  what: string,
): z.ZodRecord<z.ZodString, Value> =>
  z.record(z.string(), value, { error: `has to be an object of ${what} by name` });

const size: z.ZodType<Size> = z.lazy(() =>
  z.union(
    [
      z.int(),
      z.string(),
      z.tuple([z.enum(['+', '*', 'max']), size, size]),
      z.tuple([z.literal('//'), size, z.int().min(1)]),
    ],
    { error: "has to be a size, such as ['+', 'past', 'T']" },
  ),
);

const dimensionSchema = strict('{ min, max, multipleOf? }', {
  min: whole(0),
  max: whole(0),
  multipleOf: whole(1).optional(),
});

const inputSchema = strict('{ dtype, shape, below? }', {
  dtype,
  shape: listOf(
    z.union([whole(0), z.string()], {
      error: 'has to be a whole number from 0 to 2³¹ − 1, or the name of a dimension',
    }),
    'sizes',
  ),
  below: size.optional(),
});

const stateSchema = strict('{ dtype, shape }', { dtype, shape: listOf(whole(0), 'whole numbers') });

const limitSchema = strict('{ size, max }', {
  size,
  max: z.int({ error: 'has to be a whole number' }),
});

const methodSchema = strict('a method: { dimensions?, limits?, inputs, states?, run }', {
  dimensions: named(dimensionSchema, 'dimensions').optional(),
  limits: listOf(limitSchema, 'limits').optional(),
  inputs: named(inputSchema, 'inputs'),
  states: named(stateSchema, 'states').optional(),
  run: z.custom<Method['run']>((value) => typeof value === 'function', {
    error: 'has to be a function',
  }),
});

/** @throws ProgramError for what is missing, unknown or makes no sense */
export function checkMethod(name: string, method: Method): void {
  const result = methodSchema.safeParse(method);
  if (!result.success) {
    const [{ path, message }] = result.error.issues;
    const place = path.length > 0 ? printable(path.join('.'), 80) : 'it';
    throw new ProgramError(`${name}: ${place} ${message}.`);
  }
  const { dimensions = {}, limits = [], inputs, states = {} } = method;
  for (const each of Object.keys(dimensions)) checkName(`${name}: a dimension`, each);
  for (const each of Object.keys(inputs)) checkName(`${name}: an input`, each);
  for (const each of Object.keys(states)) checkName(`${name}: a state`, each);
  for (const [dimension, { min, max, multipleOf = 1 }] of Object.entries(dimensions)) {
    if (Object.hasOwn(inputs, dimension)) {
      throw new ProgramError(`${name}: ${dimension} is a dimension and an input; rename one.`);
    }
    if (min > max) {
      throw new ProgramError(
        `${name}: the dimension ${dimension} has to have min ≤ max, not ${min} and ${max}.`,
      );
    }
    if (Math.floor(max / multipleOf) * multipleOf < min) {
      throw new ProgramError(
        `${name}: no multiple of ${multipleOf} lies between ${min} and ${max}, the ends of ${dimension}.`,
      );
    }
  }
  const known = Object.keys(dimensions);
  for (const [input, { shape }] of Object.entries(inputs)) {
    for (const each of shape) checkKnown(`${name}: the input ${input}`, each, known);
  }
  for (const limit of limits) checkKnown(`${name}: a limit`, limit.size, known);
}

function checkKnown(what: string, size: Size, known: readonly string[]): void {
  for (const dimension of dimensionsOf(size)) {
    if (known.includes(dimension)) continue;
    const nearest = nearestName(dimension, known);
    const advice = nearest === undefined ? '' : ` Is it ${nearest}?`;
    throw new ProgramError(
      `${what} has the undeclared dimension ${printable(dimension)}.${advice}`,
    );
  }
}

/**
 * One rule for dimensions, inputs, outputs and states, which are keys of plain objects.
 *
 * @param what for messages: `decode: an input`
 */
export function checkName(what: string, name: string): void {
  if (/^[A-Za-z_][\w.-]{0,127}$/.test(name) && !(name in Object.prototype)) return;
  throw new ProgramError(
    `${what} can't be called ${quoted(name)}: a name has up to 128 letters, digits, _, . and -, begins ` +
      "with a letter or _, and is none of JavaScript's own, such as constructor.",
  );
}

/**
 * The traces of a method, which callers can't tell apart.
 *
 * @throws ProgramError for methods that make no sense, or whose traces take different things
 */
export function checkedTraces(name: string, method: Method | readonly Method[]): readonly Method[] {
  const traces = tracesOf(method);
  if (traces.length === 0) throw new ProgramError(`${name}: it has no traces.`);
  for (const trace of traces) checkMethod(name, trace);
  const shown = ({ dimensions = {}, inputs, states = {} }: Method): string => {
    const types = (all: Readonly<Record<string, { dtype: string }>>): string[] =>
      Object.entries(all).map(([each, { dtype: type }]) => `${each}: ${type}`);
    return (
      `dimensions ${list(Object.keys(dimensions))}, inputs ${list(types(inputs))}, ` +
      `states ${list(types(states))}`
    );
  };
  checkSame(name, traces.map(shown));
  return traces;
}

/** @throws ProgramError when traces of a method give different outputs */
export function checkSameOutputs(name: string, graphs: readonly Graph[]): void {
  const shown = ({ outputs, types }: Graph): string =>
    `outputs ${list(outputs.map(({ name: each, value }) => `${each}: ${types.get(value)!.dtype}`))}`;
  checkSame(name, graphs.map(shown));
}

function checkSame(name: string, shown: readonly string[]): void {
  const other = shown.findIndex((each) => each !== shown[0]);
  if (other < 0) return;
  throw new ProgramError(
    `${name}: its traces have to take and give the same: the first has ${shown[0]}; number ${other + 1} ` +
      `has ${shown[other]}.`,
  );
}

function list(names: readonly string[]): string {
  return names.length === 0 ? 'none' : `(${names.join(', ')})`;
}
