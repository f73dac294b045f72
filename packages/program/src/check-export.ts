/** Whether an export is what it should be: `export-check`. */
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { AbortedError, MlxRunnersError } from '@mlx-runners/mlx-core/errors';
import { bytesOf } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { checkBudgets, exportBudgetsSchema, type ExportBudgets } from './check-budgets.js';
import { checkRounding } from './check-quantisation.js';
import { checkResults } from './check-results.js';
import { modelOf } from './load-export.js';
import { sha256 } from './files.js';
import type { Manifest } from './format.js';
import type { Arrays, Method } from './method.js';
import { abortSignal } from './option-schemas.js';
import type { CallOptions } from './program-model.js';
import { readExport, verifyFiles, type ReadExport } from './read-export.js';

export interface ExportCall {
  method: string;
  /** Arrays, and numbers for the dimensions that no input's shape has. */
  inputs: Readonly<Record<string, MxArray | number>>;
}

/** Makes calls in one new session of an export, and gives the outputs of each. */
export type RunExport = (
  folder: string,
  calls: readonly ExportCall[],
  signal?: AbortSignal,
) => Promise<readonly Arrays[]>;

/**
 * What calls of a session are given beside their inputs, by method: `{ forward: { cache } }`. Asked once for each
 * session, with what the export publishes.
 */
export type SessionOptions = (
  constants: Manifest['constants'],
) => Readonly<Record<string, CallOptions>>;

/** An eager model that can be given other weights. */
export interface ReloadableModel {
  readonly parameters: ReadonlyMap<string, MxArray>;
  /** Replaces some of the parameters, for good. */
  load(parameters: ReadonlyMap<string, MxArray>): void;
}

export interface CheckOptions {
  /** The model's methods, to compare with. */
  methods: Readonly<Record<string, Method | readonly Method[]>>;
  /**
   * The model itself, for exports with quantised weights: it gets the same rounded weights before results are
   * compared, so that what differs is not the quantisation.
   */
  model?: ReloadableModel;
  budgets?: ExportBudgets;
  /** Names of constants that have to be published. */
  constants?: readonly string[];
  /**
   * The largest error of a result, relative to the range of its values. Unless given that of the export's
   * dtype: 1e-4 for float32, 1e-2 for float16, 5e-2 for bfloat16.
   */
  tolerance?: number;
  /**
   * Of methods that write to a cache which they are given: the dimension that says how many tokens it has before a
   * call, and the one by which it grows. All share one cache, so that calls follow one another. `methods` keep keys
   * and values in states instead.
   */
  cacheLengths?: Readonly<Record<string, { before: string; added: string }>>;
  /** In this process unless given. */
  run?: RunExport;
  /** For runs in this process. */
  sessionOptions?: SessionOptions;
  signal?: AbortSignal;
}

const optionsSchema = z.strictObject({
  methods: z.custom<CheckOptions['methods']>(
    (value) => typeof value === 'object' && value !== null,
    'must be an object of methods by name',
  ),
  model: z
    .custom<ReloadableModel>(
      (value) => typeof value === 'object' && value !== null && 'load' in value,
      'must be an object of parameters and load()',
    )
    .optional(),
  budgets: exportBudgetsSchema.optional(),
  constants: z.array(z.string(), 'must be a list of names').optional(),
  tolerance: z
    .number('must be a number')
    .positive('must be more than 0')
    .lt(1, 'must be below 1')
    .optional(),
  cacheLengths: z
    .record(
      z.string(),
      z.strictObject({ before: z.string(), added: z.string() }, 'must be { before, added }'),
      'must be an object of dimensions by method',
    )
    .optional(),
  run: z.custom<RunExport>((value) => typeof value === 'function', 'must be a function').optional(),
  sessionOptions: z
    .custom<SessionOptions>((value) => typeof value === 'function', 'must be a function')
    .optional(),
  signal: abortSignal(),
});

export interface Finding {
  /** What was checked: `decode: astype`. */
  what: string;
  ok: boolean;
  /** `2, at most 1` */
  found: string;
}

/**
 * Checks everything that it can; what it can't even read is one finding.
 *
 * @throws UsageError for options that are unknown or wrong, ProgramError for budgets of methods, traces or ops that
 *   there are not, AbortedError when the signal fires
 */
export async function checkExport(folder: string, given: CheckOptions): Promise<Finding[]> {
  const options: CheckOptions = checkOptions('checkExport()', optionsSchema, given);
  let read: ReadExport;
  try {
    await verifyFiles(folder, { signal: options.signal });
    read = readExport(folder);
    // Refuses what the interpreter would refuse.
    modelOf(folder, read).dispose();
  } catch (error) {
    if (!(error instanceof MlxRunnersError) || error instanceof AbortedError) throw error;
    return [{ what: 'files', ok: false, found: error.message }];
  }
  const { manifest } = read;
  const findings = [
    { what: 'files', ok: true, found: 'as exported' },
    checkMethods(manifest, options.methods),
    ...checkBudgets(folder, read, options.budgets ?? {}),
    checkConstants(manifest, options.constants ?? []),
    checkDuplicates(folder, manifest),
    ...(await checkRounding(folder, manifest, options)),
  ];
  const known = Object.entries(options.methods).filter(([name]) => name in manifest.methods);
  const methods = Object.fromEntries(known);
  return [...findings, ...(await checkResults(folder, manifest, { ...options, methods }))];
}

function checkMethods(manifest: Manifest, methods: CheckOptions['methods']): Finding {
  const [exported, own] = [Object.keys(manifest.methods), Object.keys(methods)];
  const missing = own.filter((name) => !exported.includes(name));
  const surplus = exported.filter((name) => !own.includes(name));
  const wrong = [
    ...(missing.length > 0 ? [`without ${missing.join(', ')}`] : []),
    ...(surplus.length > 0 ? [`the model has no ${surplus.join(', ')}`] : []),
  ];
  const ok = wrong.length === 0;
  return { what: 'methods', ok, found: ok ? exported.join(', ') : wrong.join('; ') };
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
