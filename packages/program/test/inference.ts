/** Shapes and dtypes of a changed program's results, as MLX infers them. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { callOp } from '@mlx-runners/mlx-core/program';
import type { ProgramFile, Size, Sizes } from '@mlx-runners/program';
import { evaluateSize } from '../src/sizes.js';

type Trace = ProgramFile['traces'][number];
type Argument = Trace['instructions'][number]['args'][number];

export type ArrayTypes = Readonly<Record<string, { dtype: Dtype; shape: readonly number[] }>>;

/**
 * Declares the results and outputs of all instructions as what they are, so that a change of one
 * instruction does not only make the next disagree.
 *
 * @returns whether the trace can be built; otherwise everything is as it was
 */
export function declareResults(trace: Trace, constants: ArrayTypes, states: ArrayTypes): boolean {
  let built: (MxArray[] | undefined)[][];
  const points = samplePoints(trace);
  try {
    mx.tidy(() => {
      built = points.map((sizes) => build(trace, sizes, constants, states));
      trace.instructions.forEach(({ results }, i) => {
        for (const [k, result] of results.entries()) {
          const arrays = built.map((each) => each[i]?.[k]);
          if (arrays.some((array) => array === undefined)) continue;
          declare(result, arrays as MxArray[], points);
        }
      });
      for (const output of trace.outputs) {
        const last = trace.instructions.flatMap(({ results }) => results);
        const made = last.findLast(({ slot }) => slot === output.slot);
        if (made) Object.assign(output, { dtype: made.dtype, shape: made.shape });
      }
    });
    return true;
  } catch {
    return false;
  }
}

/** The smallest sizes, and those where one dimension is a step larger. */
function samplePoints({ dimensions }: Trace): Sizes[] {
  const smallest: Record<string, number> = {};
  for (const [name, { min, multipleOf = 1 }] of Object.entries(dimensions)) {
    smallest[name] = Math.ceil(min / multipleOf) * multipleOf;
  }
  const larger = Object.entries(dimensions).map(([name, { multipleOf = 1 }]) => ({
    ...smallest,
    [name]: smallest[name] + multipleOf,
  }));
  return [smallest, ...larger];
}

function build(trace: Trace, sizes: Sizes, constants: ArrayTypes, states: ArrayTypes): MxArray[][] {
  const slots = new Map<number, MxArray>();
  const zeros = (shape: readonly Size[], dtype: Dtype): MxArray =>
    mx.zeros(
      shape.map((size) => evaluateSize(size, sizes)),
      dtype,
    );
  for (const { slot, dtype, shape } of trace.inputs) slots.set(slot, zeros(shape, dtype));
  for (const { slot, name } of trace.constants) {
    slots.set(slot, zeros(constants[name].shape, constants[name].dtype));
  }
  for (const { slot, name } of trace.states) {
    slots.set(slot, zeros(states[name].shape, states[name].dtype));
  }
  return trace.instructions.map(({ op, args, results }) => {
    const made = callOp(
      op,
      args.map((arg) => argument(arg, slots, sizes)),
    );
    results.forEach(({ slot }, i) => slots.set(slot, made[i]));
    return made;
  });
}

function argument(arg: Argument, slots: ReadonlyMap<number, MxArray>, sizes: Sizes): unknown {
  if (arg === null || typeof arg !== 'object') return arg;
  if ('slot' in arg) return slots.get(arg.slot);
  if ('slots' in arg) return arg.slots.map((slot) => slots.get(slot));
  if ('number' in arg) return Number(arg.number);
  if ('size' in arg) return evaluateSize(arg.size, sizes);
  return arg.list.map((size) => evaluateSize(size, sizes));
}

function declare(
  result: { dtype: Dtype; shape: Size[] },
  arrays: readonly MxArray[],
  points: readonly Sizes[],
): void {
  result.dtype = arrays[0].dtype;
  const fits = (size: Size | undefined, axis: number): boolean =>
    size !== undefined &&
    arrays.every((array, i) => evaluateSize(size, points[i]) === array.shape[axis]);
  result.shape = arrays[0].shape.map((_, axis) =>
    fits(result.shape[axis], axis) ? result.shape[axis] : linear(axis, arrays, points),
  );
}

/** a·d + b, or a number: what the sizes of an axis are at all points, as far as they are linear. */
function linear(axis: number, arrays: readonly MxArray[], points: readonly Sizes[]): Size {
  const at = (point: number): number => arrays[point].shape[axis];
  let size: Size = at(0);
  Object.keys(points[0]).forEach((name, i) => {
    const step = points[i + 1][name] - points[0][name];
    const slope = Math.floor((at(i + 1) - at(0)) / step);
    if (slope === 0) return;
    const product: Size = ['*', name, slope];
    size = ['+', size, ['+', product, -slope * points[0][name]]];
  });
  return size;
}
