/** Whether an export computes what the eager model does. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import {
  AbortedError,
  MlxRunnersError,
  quoted,
  throwIfAborted,
  UsageError,
} from '@mlx-runners/mlx-core/errors';
import type { CheckOptions, ExportCall, Finding, RunExport } from './check-export.js';
import { loadExport } from './load-export.js';
import type { Manifest } from './format.js';
import { allows, tracesOf, type Arrays, type Method } from './method.js';
import { untracedSize } from './sampling.js';
import { evaluateSize, type Sizes } from './sizes.js';

// The second time states are those of the first.
const rounds = 2;

/**
 * The largest error of a result, relative to the range of its values: what float32 loses where sums are
 * taken in another order. 16-bit floats lose more where fused ops round once instead of twice.
 */
const tolerances: Partial<Record<Dtype, number>> = { float16: 1e-2, bfloat16: 5e-2 };
const defaultTolerance = 1e-4;

interface Step extends ExportCall {
  trace: Method;
  sizes: Sizes;
  what: string;
}

/**
 * Calls every trace of every method, in their order, twice in one session, at sizes that were not traced, and
 * compares all outputs with those of the eager model, whose states are carried along.
 */
export async function checkResults(
  folder: string,
  { dtype }: Manifest,
  options: CheckOptions,
): Promise<Finding[]> {
  const { methods, sessionOptions, signal, cacheLengths = {} } = options;
  const here: RunExport = (place, calls) => runExportHere(place, calls, { signal, sessionOptions });
  const run = options.run ?? here;
  const tolerance = options.tolerance ?? tolerances[dtype] ?? defaultTolerance;
  const steps = sequenceOf(methods, cacheLengths);
  let actual: readonly Arrays[];
  try {
    actual = await run(folder, steps, signal);
  } catch (error) {
    if (!(error instanceof MlxRunnersError) || error instanceof AbortedError) throw error;
    return [{ what: 'results', ok: false, found: error.message }];
  }
  const findings: Finding[] = [];
  let states: Arrays = {};
  for (const [i, { what, trace, inputs, sizes }] of steps.entries()) {
    throwIfAborted(signal);
    const expected = eagerly(trace, inputs as Arrays, sizes, states);
    await mx.eval(...Object.values(expected.outputs), ...Object.values(expected.states));
    states = { ...states, ...expected.states };
    findings.push(await compared(what, actual[i], expected.outputs, tolerance));
  }
  return findings;
}

function sequenceOf(
  methods: CheckOptions['methods'],
  cacheLengths: NonNullable<CheckOptions['cacheLengths']>,
): Step[] {
  const traces = Object.entries(methods).flatMap(([method, each]) =>
    tracesOf(each).map((trace) => ({ method, trace, sizes: sizesOf(trace) })),
  );
  let cached = 0;
  return Array.from({ length: rounds }, (_, round) =>
    traces.flatMap(({ method, trace, sizes: all }, i): Step[] => {
      const length = Object.hasOwn(cacheLengths, method) ? cacheLengths[method] : undefined;
      const sizes = length ? following(trace, all[round], length, cached) : all[round];
      // The cache is full.
      if (!sizes) return [];
      if (length) cached += sizes[length.added];
      return [
        {
          method,
          trace,
          sizes,
          inputs: {
            ...exampleInputs(trace, sizes, round * traces.length + i),
            ...ungiven(trace, sizes),
          },
          what: `${method}: results at ${JSON.stringify(sizes)}`,
        },
      ];
    }),
  ).flat();
}

/** Sizes with so many tokens in the cache, and as many added as were drawn, or as there is room for. */
function following(
  method: Method,
  drawn: Sizes,
  { before, added }: { before: string; added: string },
  cached: number,
): Sizes | undefined {
  const dimensions = method.dimensions ?? {};
  const unknown = [before, added].find((name) => !Object.hasOwn(dimensions, name));
  if (unknown !== undefined) {
    throw new UsageError(`cacheLengths: there is no dimension ${quoted(unknown)}.`);
  }
  if (cached > dimensions[before].max) return undefined;
  const { min, multipleOf = 1 } = dimensions[added];
  for (let count = drawn[added]; count >= min; count -= multipleOf) {
    const sizes = { ...drawn, [before]: cached, [added]: count };
    if (allows(method, sizes)) return sizes;
  }
  return undefined;
}

/** In the order in which callers go through them: a cache is read where an earlier call wrote. */
function sizesOf(method: Method): Sizes[] {
  const reach = (sizes: Sizes): number =>
    Object.values(ungiven(method, sizes)).reduce((sum, size) => sum + size, 0);
  const drawn = Array.from({ length: rounds }, () => untracedSize(method));
  return drawn.sort((a, b) => reach(a) - reach(b));
}

function exampleInputs({ inputs }: Method, sizes: Sizes, seed: number): Arrays {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { dtype, shape, below = 2 }], i) => {
      const concrete = shape.map((size) => (typeof size === 'string' ? sizes[size] : size));
      const key = mx.randomKey(1000 * seed + i);
      const array = isFloat(dtype)
        ? mx.randomNormal(key, concrete).astype(dtype)
        : mx.randomInteger(key, concrete, 0, evaluateSize(below, sizes)).astype(dtype);
      return [name, array];
    }),
  );
}

/** The dimensions that no input's shape has. */
function ungiven({ inputs }: Method, sizes: Sizes): Record<string, number> {
  const bound = new Set<unknown>(Object.values(inputs).flatMap(({ shape }) => shape));
  return Object.fromEntries(Object.entries(sizes).filter(([name]) => !bound.has(name)));
}

function eagerly(
  method: Method,
  inputs: Arrays,
  sizes: Sizes,
  before: Readonly<Arrays>,
): { outputs: Arrays; states: Arrays } {
  return mx.tidy(() => {
    const states = Object.fromEntries(
      Object.entries(method.states ?? {}).map(([name, { dtype, shape }]) => [
        name,
        before[name] ?? mx.zeros(shape, dtype),
      ]),
    );
    return { outputs: method.run(inputs, sizes, states), states };
  });
}

/** Makes calls in one new session of an export, in this process, and gives the outputs of each. */
export async function runExportHere(
  folder: string,
  calls: readonly ExportCall[],
  { signal, sessionOptions }: Pick<CheckOptions, 'signal' | 'sessionOptions'> = {},
): Promise<Arrays[]> {
  using model = loadExport(folder);
  using session = model.session();
  const given = sessionOptions?.(model.manifest.constants) ?? {};
  const results: Arrays[] = [];
  for (const { method, inputs } of calls) {
    const options = Object.hasOwn(given, method) ? given[method] : {};
    results.push((await session.run(method, inputs, { ...options, signal })).outputs);
  }
  return results;
}

async function compared(
  what: string,
  actual: Arrays,
  expected: Arrays,
  tolerance: number,
): Promise<Finding> {
  const surplus = Object.keys(actual).find((name) => !Object.hasOwn(expected, name));
  if (surplus !== undefined) {
    return { what, ok: false, found: `${surplus} is no result of the model` };
  }
  if (Object.keys(expected).length === 0) return { what, ok: true, found: 'none but states' };
  let largest = 0;
  for (const [name, array] of Object.entries(expected)) {
    const problem = difference(name, actual[name], array);
    if (problem !== undefined) return { what, ok: false, found: problem };
    const error = await errorOf(actual[name], array);
    if (Number.isNaN(error)) return { what, ok: false, found: `${name} has values that are NaN` };
    largest = Math.max(largest, error);
  }
  const exact = Object.values(expected).every(({ dtype }) => !isFloat(dtype));
  const error = `${largest.toExponential(1)} of their range, at most ${tolerance.toExponential(0)}`;
  const found = exact ? (largest === 0 ? 'equal' : 'integers differ') : error;
  return { what, ok: largest <= tolerance, found };
}

function difference(
  name: string,
  actual: MxArray | undefined,
  expected: MxArray,
): string | undefined {
  if (!actual) return `${name} is missing`;
  const types = [actual, expected].map(({ dtype, shape }) => `${dtype}[${shape.join(', ')}]`);
  return types[0] === types[1] ? undefined : `${name} is ${types[0]}, in the model ${types[1]}`;
}

/** Relative to the range of expected values; NaN where either has one, Infinity for integers that differ. */
async function errorOf(actual: MxArray, expected: MxArray): Promise<number> {
  const [a, b] = await Promise.all([actual.data(), expected.data()]);
  if (!isFloat(expected.dtype)) {
    return a.every((value, i) => value === b[i]) ? 0 : Infinity;
  }
  const [found, right] = [Float64Array.from(a, Number), Float64Array.from(b, Number)];
  const range = usualRange(right);
  let largest = 0;
  for (const [i, y] of right.entries()) {
    const x = found[i];
    if (Number.isNaN(x) || Number.isNaN(y)) return NaN;
    if (x === y) continue;
    if (!Number.isFinite(x) || !Number.isFinite(y)) return Infinity;
    // A float can't be nearer than its own size allows.
    largest = Math.max(largest, Math.abs(x - y) / Math.max(range, Math.abs(y) / 10));
  }
  return largest;
}

/** The range of most values: a mask of -1e9 among them says nothing of how near the others have to be. */
function usualRange(values: Float64Array): number {
  const sizes = values.map(Math.abs).filter(Number.isFinite).sort();
  const finite = values.filter(Number.isFinite).sort();
  const range = finite.length > 0 ? finite[finite.length - 1] - finite[0] : 0;
  const usual = 16 * (sizes[sizes.length >> 2] ?? 0);
  if (range > 0 && usual > 0) return Math.min(range, usual);
  return range || (sizes.at(-1) ?? 0) || 1;
}

function isFloat(dtype: Dtype): boolean {
  return dtype.includes('float') || dtype === 'complex64';
}
