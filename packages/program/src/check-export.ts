/** Whether an export is what it should be: `export-check`. */
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { MlxRunnersError, ProgramError } from '@mlx-runners/mlx-core/errors';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import { loadExport, verifyFiles } from './exported-model.js';
import { sha256 } from './files.js';
import type { Manifest } from './format.js';
import { inspectExport, type ExportReport } from './inspect.js';
import { tracesOf, type Arrays, type Method } from './method.js';
import { untracedSize } from './sampling.js';
import type { Sizes } from './sizes.js';

/** What a method may cost. Each of its traces is held to it. */
export interface ExportBudget {
  /** The most instructions of an op. */
  ops?: Readonly<Record<string, number>>;
  /** The most instructions. */
  instructions?: number;
  /** The most bytes of its program. */
  bytes?: number;
}

/** Runs a method of an export with new states. */
export type RunExport = (
  folder: string,
  method: string,
  inputs: Readonly<Record<string, MxArray | number>>,
) => Promise<Arrays>;

export interface CheckOptions {
  /** The model's methods, to compare with. */
  methods: Readonly<Record<string, Method | readonly Method[]>>;
  /** By method; casts (`astype`) are none unless a budget says otherwise. */
  budgets?: Readonly<Record<string, ExportBudget>>;
  /** The most bytes of all files. */
  bytes?: number;
  /** Names of constants that have to be published. */
  constants?: readonly string[];
  /** The largest error of a result, relative to the range of its values: 1e-4 unless given. */
  tolerance?: number;
  /** In this process unless given. */
  run?: RunExport;
}

export interface Finding {
  /** What was checked: `decode: astype`. */
  what: string;
  ok: boolean;
  /** `2, at most 1` */
  found: string;
}

/** Checks everything that it can; what it can't even read is one finding. */
export async function checkExport(folder: string, options: CheckOptions): Promise<Finding[]> {
  const findings: Finding[] = [];
  let report: ExportReport;
  try {
    verifyFiles(folder);
    report = inspectExport(folder);
    findings.push({ what: 'files', ok: true, found: 'as exported' });
  } catch (error) {
    if (!(error instanceof MlxRunnersError)) throw error;
    return [{ what: 'files', ok: false, found: error.message }];
  }
  findings.push(...checkBudgets(report, options));
  findings.push(checkConstants(report.manifest, options.constants ?? []));
  findings.push(checkDuplicates(folder, report.manifest));
  for (const [name, method] of Object.entries(options.methods)) {
    findings.push(...(await checkResults(folder, name, method, options)));
  }
  return findings;
}

function atMost(what: string, count: number, most: number): Finding {
  return { what, ok: count <= most, found: `${count}, at most ${most}` };
}

function checkBudgets(report: ExportReport, { budgets = {}, bytes }: CheckOptions): Finding[] {
  const findings = bytes === undefined ? [] : [atMost('bytes of all files', report.bytes, bytes)];
  for (const [name, method] of Object.entries(report.methods)) {
    const budget = budgets[name] ?? {};
    if (budget.bytes !== undefined) {
      findings.push(atMost(`${name}: bytes of its program`, method.bytes, budget.bytes));
    }
    for (const { ops, instructions } of method.traces) {
      if (budget.instructions !== undefined) {
        findings.push(atMost(`${name}: instructions`, instructions, budget.instructions));
      }
      for (const [op, most] of Object.entries({ astype: 0, ...budget.ops })) {
        findings.push(atMost(`${name}: ${op}`, ops[op] ?? 0, most));
      }
    }
  }
  return findings;
}

function checkConstants({ constants }: Manifest, names: readonly string[]): Finding {
  const missing = names.filter((name) => !Object.hasOwn(constants, name));
  return {
    what: 'published constants',
    ok: missing.length === 0,
    found: missing.length === 0 ? `${names.length}` : `without ${missing.join(', ')}`,
  };
}

function checkDuplicates(folder: string, manifest: Manifest): Finding {
  return mx.tidy(() => {
    const seen = new Map<string, string>();
    const duplicates: string[] = [];
    for (const path of manifest.weights) {
      for (const [name, array] of mx.loadSafetensors(join(folder, path)).tensors) {
        const content = `${array.dtype}[${array.shape.join()}] ${sha256(bytesOf(array))}`;
        const first = seen.get(content);
        if (first === undefined) seen.set(content, name);
        else duplicates.push(`${name} is ${first}`);
      }
    }
    const ok = duplicates.length === 0;
    return {
      what: 'constants stored once',
      ok,
      found: ok ? `${seen.size}` : duplicates.join(', '),
    };
  });
}

async function checkResults(
  folder: string,
  name: string,
  method: Method | readonly Method[],
  { tolerance = 1e-4, run = runHere }: CheckOptions,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const trace of tracesOf(method)) {
    const sizes = untracedSize(trace);
    const inputs = exampleInputs(trace, sizes);
    const expected = eagerly(trace, inputs, sizes);
    const what = `${name}: results at ${JSON.stringify(sizes)}`;
    try {
      const outputs = await run(folder, name, { ...inputs, ...ungiven(trace, sizes) });
      const error = await largestError(outputs, expected);
      const found = `${error.toExponential(1)} of their range, at most ${tolerance.toExponential(0)}`;
      findings.push({ what, ok: error <= tolerance, found });
    } catch (error) {
      if (!(error instanceof MlxRunnersError)) throw error;
      findings.push({ what, ok: false, found: error.message });
    }
  }
  return findings;
}

async function runHere(...[folder, method, inputs]: Parameters<RunExport>): Promise<Arrays> {
  using model = loadExport(folder);
  using session = model.session();
  return (await session.run(method, inputs)).outputs;
}

/** Random numbers; integers are 0 or 1, which name something in any table of two rows. */
function exampleInputs({ inputs }: Method, sizes: Sizes): Arrays {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { dtype, shape }], i) => {
      const concrete = shape.map((size) => (typeof size === 'string' ? sizes[size] : size));
      const key = mx.randomKey(i);
      const array = dtype.includes('float')
        ? mx.randomNormal(key, concrete).astype(dtype)
        : mx.randomInteger(key, concrete, 0, 2).astype(dtype);
      return [name, array];
    }),
  );
}

function eagerly(method: Method, inputs: Arrays, sizes: Sizes): Arrays {
  const states = Object.entries(method.states ?? {}).map(
    ([name, { dtype, shape }]) => [name, mx.zeros(shape, dtype)] as const,
  );
  return method.run(inputs, sizes, Object.fromEntries(states));
}

/** The dimensions that no input's shape has. */
function ungiven({ inputs }: Method, sizes: Sizes): Record<string, number> {
  const bound = new Set<unknown>(Object.values(inputs).flatMap(({ shape }) => shape));
  return Object.fromEntries(Object.entries(sizes).filter(([name]) => !bound.has(name)));
}

async function largestError(actual: Arrays, expected: Arrays): Promise<number> {
  let largest = 0;
  for (const [name, array] of Object.entries(expected)) {
    if (actual[name]?.shape.join() !== array.shape.join()) {
      throw new ProgramError(`${name} has another shape than in the model.`);
    }
    const [a, b] = [await numbers(actual[name]), await numbers(array)];
    const finite = b.filter((value) => Number.isFinite(value));
    const range = rangeOf(finite);
    for (const [i, value] of b.entries()) {
      if (Object.is(a[i], value)) continue;
      const error = Math.abs(a[i] - value) / (range || 1);
      largest = Math.max(largest, Number.isNaN(error) ? Infinity : error);
    }
  }
  return largest;
}

function rangeOf(values: readonly number[]): number {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return Math.max(high - low, 0);
}

async function numbers(array: MxArray): Promise<number[]> {
  return Array.from(await array.data(), Number);
}
