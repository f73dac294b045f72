/** What callers give a method, held against what it takes. */
import { MxArray } from '@mlx-runners/mlx-core';
import { DisposedError, quoted, ShapeError, UsageError } from '@mlx-runners/mlx-core/errors';
import type { NativeCall } from '@mlx-runners/mlx-core/program';
import type { DimensionOfCall, LoweredMethod } from './lowered-method.js';

/** Inputs and dimensions of a call, in the method's order. Shapes and dtypes are checked natively. */
export function callArguments(
  method: LoweredMethod,
  given: unknown,
): Pick<NativeCall, 'inputs' | 'dimensions'> {
  const values = namedValues(method, given);
  return {
    inputs: method.inputs.map((name) => arrayNamed(method, name, values)),
    dimensions: Float64Array.from(method.dimensions, (dimension) =>
      dimensionOf(method, dimension, values),
    ),
  };
}

type Values = ReadonlyMap<string, unknown>;

function namedValues({ name, inputs, dimensions }: LoweredMethod, given: unknown): Values {
  const isObject = typeof given === 'object' && given !== null;
  if (!isObject || Array.isArray(given) || given instanceof MxArray) {
    const what = given instanceof MxArray ? 'one array' : quoted(given);
    throw new UsageError(`${name} takes an object of arrays and dimensions by name, not ${what}.`);
  }
  const values = new Map(Object.entries(given));
  const takes = [
    ...inputs,
    ...dimensions.filter(({ inShapes }) => inShapes !== 'all').map((each) => each.name),
  ];
  for (const key of values.keys()) {
    if (takes.includes(key)) continue;
    if (dimensions.some((each) => each.name === key)) {
      throw new UsageError(`${name} has the dimension ${key} from its inputs: leave it out.`);
    }
    const known = takes.length > 0 ? takes.join(', ') : 'nothing';
    throw new UsageError(`${name} takes ${known}, and no ${quoted(key)}.`);
  }
  return values;
}

function arrayNamed(method: LoweredMethod, name: string, values: Values): MxArray {
  const value = values.get(name);
  if (value === undefined) throw new UsageError(`${method.name} needs the array ${name}.`);
  if (!(value instanceof MxArray)) {
    throw new UsageError(`${method.name}: ${name} has to be an MxArray, not ${quoted(value)}.`);
  }
  if (value.disposed) throw new DisposedError(`${method.name}: ${name} was disposed.`);
  return value;
}

/** NaN where an input's shape says it. */
function dimensionOf(method: LoweredMethod, dimension: DimensionOfCall, values: Values): number {
  const { name, min, max, multipleOf = 1, inShapes } = dimension;
  const value = values.get(name);
  if (value === undefined && inShapes !== 'none') return NaN;
  const kind = multipleOf === 1 ? 'whole number' : `multiple of ${multipleOf}`;
  const what = `a ${kind} from ${min} to ${max}`;
  if (value === undefined) {
    throw new UsageError(`${method.name} needs the dimension ${name}: ${what}.`);
  }
  if (typeof value !== 'number') {
    const given = value instanceof MxArray ? 'an array' : quoted(value);
    throw new UsageError(`${method.name}: ${name} has to be ${what}, not ${given}.`);
  }
  if (!Number.isInteger(value / multipleOf) || value < min || value > max) {
    throw new ShapeError(`${method.name}: ${name} has to be ${what}, not ${value}.`);
  }
  return value;
}
