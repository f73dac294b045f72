/** Several traces of one method become one graph, in which sizes are expressions of the dimensions. */
import { ProgramError } from '@mlx-runners/mlx-core/errors';
import { opRows, type OpRow } from '@mlx-runners/mlx-core/program';
import { at, place, sameNumbers } from './compare.js';
import type { Argument, ArrayType, Graph, Instruction } from './graph.js';
import type { Method } from './method.js';
import { SizeFitter } from './size-fitter.js';
import type { Size, Sizes } from './sizes.js';
import type { Trace } from './trace.js';

/**
 * @throws ProgramError that names op, argument and line of what differs between traces in a way that no
 *   expression of the dimensions gives
 */
export function fitTraces(method: Method, traces: readonly Trace[]): Graph {
  const [{ graph }] = traces;
  const points = traces.map(({ sizes }) => sizes);
  const fitter = new SizeFitter(Object.keys(graph.dimensions), points);
  const types = new Map<number, ArrayType>();
  const fitType = (value: number, what: string): void => {
    types.set(value, fittedType(traces, value, fitter, what));
  };
  for (const { name, value } of graph.inputs) types.set(value, method.inputs[name]);
  for (const { name, value } of graph.states) fitType(value, `the state ${name}`);
  for (const { name, value } of graph.constants) fitType(value, `the constant ${name}`);
  const instructions = graph.instructions.map((instruction, index) => {
    const same = traces.map((trace) => trace.graph.instructions[index]);
    const args = instruction.args.map((_, position) =>
      fittedArgument(same, position, points, fitter),
    );
    instruction.results.forEach((value, result) =>
      fitType(value, `${place(instruction)}: result ${result}`),
    );
    return { ...instruction, args };
  });
  return { ...graph, types, instructions };
}

const rows = (): Map<string, OpRow> => new Map(opRows().map((row) => [row.name, row]));
let rowsByName: Map<string, OpRow> | undefined;

function argumentName(op: string, position: number): string {
  rowsByName ??= rows();
  return rowsByName.get(op)?.params[position]?.name ?? `argument ${position}`;
}

function seen(points: readonly Sizes[], values: readonly unknown[]): string {
  const shown = points.map((sizes, i) => `${String(values[i])} at ${at(sizes)}`);
  // The last ones are those that nothing fits any more.
  return (shown.length > 6 ? [...shown.slice(0, 3), '…', ...shown.slice(-3)] : shown).join('; ');
}

function fittedType(
  traces: readonly Trace[],
  value: number,
  fitter: SizeFitter,
  what: string,
): ArrayType {
  const types = traces.map(({ graph }) => graph.types.get(value)!);
  const [{ dtype, shape }] = types;
  const points = traces.map(({ sizes }) => sizes);
  const differs = types.find((type) => type.dtype !== dtype || type.shape.length !== shape.length);
  if (differs) {
    const shown = types.map((type) => `${type.dtype} with ${type.shape.length} axes`);
    throw new ProgramError(`${what} is not always of the same kind: ${seen(points, shown)}.`);
  }
  return {
    dtype,
    shape: shape.map((_, axis) => {
      const column = types.map((type) => type.shape[axis] as number);
      return fitter.fit(column) ?? unfitted(`${what}, axis ${axis}`, points, column);
    }),
  };
}

function unfitted(what: string, points: readonly Sizes[], values: readonly unknown[]): never {
  throw new ProgramError(
    `${what} is no expression of the dimensions (+, ×, floor division, max or min, of two at most): ${seen(points, values)}.`,
  );
}

function fittedArgument(
  same: readonly Instruction[],
  position: number,
  points: readonly Sizes[],
  fitter: SizeFitter,
): Argument {
  const [instruction] = same;
  const arg = instruction.args[position];
  const what = (): string => `${place(instruction)}: ${argumentName(instruction.op, position)}`;
  if (typeof arg === 'number') {
    const column = same.map(({ args }) => args[position] as number);
    if (column.every((value) => Object.is(value, arg))) return arg;
    const size = column.every(Number.isSafeInteger) ? fitter.fit(column) : undefined;
    if (size === undefined) {
      const advice = ' Give it as an array, or compute it with ops.';
      const numbers = seen(points, column);
      throw new ProgramError(
        `${what()} is no whole-number expression of the dimensions: ${numbers}.${advice}`,
      );
    }
    return { size };
  }
  if (typeof arg !== 'object' || arg === null || !('list' in arg)) return arg;
  return {
    list: arg.list.map((_, index): Size => {
      const column = same.map(
        ({ args }) => (args[position] as { list: readonly number[] }).list[index],
      );
      return fitter.fit(column) ?? unfitted(`${what()}[${index}]`, points, column);
    }),
  };
}

/** The first number that a graph predicts wrongly for a size, in words; nothing when all is right. */
export function misprediction(
  graph: Graph,
  trace: Trace,
  evaluate: (size: Size) => number,
): string | undefined {
  const instructions = trace.graph.instructions;
  for (const [index, { args, results, ...instruction }] of graph.instructions.entries()) {
    for (const [position, arg] of args.entries()) {
      const found = instructions[index]?.args[position];
      if (found !== undefined && isPredicted(arg, found, evaluate)) continue;
      return `${place({ ...instruction, args, results })}: ${argumentName(instruction.op, position)}`;
    }
    for (const value of results) {
      const predicted = graph.types.get(value)!.shape.map(evaluate);
      if (sameNumbers(predicted, trace.graph.types.get(value)?.shape ?? [])) continue;
      return `${place({ ...instruction, args, results })}: the shape of its result`;
    }
  }
  return undefined;
}

/** Whether an argument comes out as a trace of one size has it. Traces have the same structure. */
function isPredicted(arg: Argument, found: Argument, evaluate: (size: Size) => number): boolean {
  if (typeof arg === 'number') return Object.is(arg, found);
  if (typeof arg !== 'object' || arg === null) return arg === found;
  if ('size' in arg) return evaluate(arg.size) === found;
  if (!('list' in arg)) return true;
  return (
    typeof found === 'object' &&
    found !== null &&
    'list' in found &&
    sameNumbers(arg.list.map(evaluate), found.list)
  );
}
