/** The sizes at which methods are written in a format that has no dimensions. */
import { ShapeError, UsageError } from '@mlx-runners/mlx-core';
import { quoted } from '@mlx-runners/mlx-core/errors';
import { checkedTraces } from './check-method.js';
import type { Method } from './method.js';
import { evaluateSize, formatSize, type Sizes } from './sizes.js';

type Methods = Readonly<Record<string, Method | readonly Method[]>>;

/**
 * Those of each method, each once; of a method without dimensions there is one.
 *
 * @throws UsageError for names that there are not and for sizes that are missing, ShapeError for sizes that
 *   the method doesn't take
 */
export function sizesOfMethods(
  methods: Methods,
  given: Readonly<Record<string, readonly Sizes[]>>,
): Map<string, Sizes[]> {
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(methods, name));
  if (unknown !== undefined) {
    const known = Object.keys(methods).join(', ');
    throw new UsageError(`Sizes are given for ${quoted(unknown)}; the methods are ${known}.`);
  }
  return new Map(
    Object.entries(methods).map(([name, method]) => {
      const traces = checkedTraces(name, method);
      const list = Object.hasOwn(given, name) ? given[name] : [];
      return [name, sizesOfMethod(name, traces, list)];
    }),
  );
}

function sizesOfMethod(name: string, traces: readonly Method[], given: readonly Sizes[]): Sizes[] {
  const names = Object.keys(traces[0].dimensions ?? {});
  if (names.length === 0 && given.length === 0) return [{}];
  if (given.length === 0) {
    const example = names.map((each) => `${each}=${smallest(traces[0], each)}`).join(',');
    throw new UsageError(
      `${name} has dimensions (${rangesOf(traces)}), which MLX's format has not: give the sizes to write ` +
        `it at, such as ${name}:${example}.`,
    );
  }
  const all = given.map((sizes) => inOrder(name, names, sizes));
  for (const sizes of all) {
    if (traces.some((trace) => takes(trace, sizes))) continue;
    const shown = names.map((each) => `${each}=${sizes[each]}`).join(',');
    throw new ShapeError(`${name} can't have ${shown}: it takes ${rangesOf(traces)}.`);
  }
  return [...new Map(all.map((sizes) => [JSON.stringify(sizes), sizes])).values()];
}

function inOrder(method: string, names: readonly string[], sizes: Sizes): Sizes {
  const unknown = Object.keys(sizes).find((name) => !names.includes(name));
  const missing = names.find((name) => !Object.hasOwn(sizes, name));
  if (unknown === undefined && missing === undefined) {
    return Object.fromEntries(names.map((name) => [name, sizes[name]]));
  }
  const known = names.length === 0 ? 'no dimensions' : `the dimensions ${names.join(', ')}`;
  const problem =
    unknown === undefined ? `its sizes have no ${missing}` : `there is no ${quoted(unknown)}`;
  throw new UsageError(`${method} has ${known}: ${problem}.`);
}

function takes({ dimensions = {}, limits = [] }: Method, sizes: Sizes): boolean {
  return (
    Object.entries(dimensions).every(([name, { min, max, multipleOf = 1 }]) => {
      const size = sizes[name];
      return size >= min && size <= max && size % multipleOf === 0;
    }) && limits.every(({ size, max }) => evaluateSize(size, sizes) <= max)
  );
}

function smallest({ dimensions }: Method, name: string): number {
  const { min, multipleOf = 1 } = dimensions![name];
  return Math.ceil(min / multipleOf) * multipleOf;
}

/** `T 1 to 8, past 0 to 15, past + T at most 16`, or several such things. */
function rangesOf(traces: readonly Method[]): string {
  const ofTraces = traces.map(({ dimensions = {}, limits = [] }) =>
    [
      ...Object.entries(dimensions).map(([name, { min, max, multipleOf = 1 }]) => {
        const steps = multipleOf === 1 ? '' : ` in steps of ${multipleOf}`;
        return `${name} ${min} to ${max}${steps}`;
      }),
      ...limits.map(({ size, max }) => `${formatSize(size)} at most ${max}`),
    ].join(', '),
  );
  return ofTraces.join('; or ');
}
