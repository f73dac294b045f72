/** What an export may cost, and whether it keeps to it. */
import { join } from 'node:path';
import { mx, nearestName, type Dtype } from '@mlx-runners/mlx-core';
import { ProgramError, quoted } from '@mlx-runners/mlx-core/errors';
import { opRows } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import type { Finding } from './check-export.js';
import type { ReadExport } from './read-export.js';
import { slotsRead, type Manifest, type ProgramFile, type TraceFile } from './format.js';

const count = z.int('must be a whole number').nonnegative('must not be negative').optional();

const traceBudget = z.strictObject({
  /** The most instructions of a call. */
  instructions: count,
  /** The most instructions of an op, by its name. Casts (`astype`) are none unless given. */
  ops: z.record(z.string(), count.unwrap()).optional(),
  /** The most instructions that make float32 of 16-bit floats without saying so; none unless given. */
  upcasts: count,
});

const methodBudget = z.strictObject({
  /** The most bytes of its program, weights aside. */
  bytes: count,
  /** One for each trace, in their order. */
  traces: z.array(traceBudget).optional(),
});

/** What an export may cost. */
export const exportBudgetsSchema = z.strictObject({
  /** The most bytes of all files. */
  bytes: count,
  /** By method; a method that is left out fails. */
  methods: z.record(z.string(), methodBudget).optional(),
});

export type ExportBudgets = z.infer<typeof exportBudgetsSchema>;
export type TraceBudget = z.infer<typeof traceBudget>;

/**
 * @throws ProgramError for budgets that can't be meant: of methods, traces or ops that there are not
 */
export function checkBudgets(
  folder: string,
  { manifest, programs }: ReadExport,
  budgets: ExportBudgets,
): Finding[] {
  checkNames(programs, budgets);
  const dtypes = constantDtypes(folder, manifest);
  const total = Object.values(manifest.files).reduce((sum, { bytes }) => sum + bytes, 0);
  return [
    ...within('bytes of all files', total, budgets.bytes),
    ...programs.flatMap((program) => {
      const { method, traces } = program;
      const budget = budgets.methods?.[method] ?? {};
      const { bytes } = manifest.files[manifest.methods[method].program];
      const forgotten = budgets.methods && !Object.hasOwn(budgets.methods, method);
      return [
        ...(forgotten ? [{ what: `${method}: budget`, ok: false, found: 'none' }] : []),
        ...within(`${method}: bytes of its program`, bytes, budget.bytes),
        ...traces.flatMap((trace, i) =>
          checkTrace(
            nameOf(program, i),
            trace,
            budget.traces?.[i] ?? {},
            upcasts(trace, manifest, dtypes),
          ),
        ),
      ];
    }),
  ];
}

function nameOf({ method, traces }: ProgramFile, i: number): string {
  return traces.length === 1 ? method : `${method}, trace ${i + 1}`;
}

function checkTrace(
  what: string,
  trace: TraceFile,
  { instructions, ops, upcasts: most = 0 }: TraceBudget,
  found: number,
): Finding[] {
  const counted = withoutRowCasts(trace);
  const countOf = (op: string): number => counted.filter((each) => each.op === op).length;
  return [
    ...within(`${what}: instructions`, counted.length, instructions),
    ...Object.entries({ astype: 0, ...ops }).flatMap(([op, count]) =>
      within(`${what}: ${op}`, countOf(op), count),
    ),
    ...within(`${what}: upcasts`, found, most),
  ];
}

function within(what: string, count: number, most: number | undefined): Finding[] {
  if (most === undefined) return [];
  return [{ what, ok: count <= most, found: `${count}, at most ${most}` }];
}

const halves: ReadonlySet<Dtype> = new Set(['float16', 'bfloat16']);

/** Ops whose results are float32 whatever they read: what rows of packed tables stand for. */
const rowOps: ReadonlySet<string> = new Set(['quantizedTake', 'blockTake']);

/** Without the casts that give such rows the dtype that they had in the table. */
function withoutRowCasts({ instructions }: TraceFile): TraceFile['instructions'] {
  const rows = new Set<number>();
  return instructions.filter(({ op, args, results }) => {
    const isRowCast = op === 'astype' && slotsRead(args).some((slot) => rows.has(slot));
    for (const { slot } of results) {
      if (rowOps.has(op)) rows.add(slot);
      else rows.delete(slot);
    }
    return !isRowCast;
  });
}

/** Instructions other than casts that read 16-bit floats and give float32, as mixed operands do. */
function upcasts(
  trace: TraceFile,
  { states }: Manifest,
  constants: ReadonlyMap<string, Dtype>,
): number {
  const dtypes = new Map<number, Dtype>();
  for (const { slot, dtype } of trace.inputs) dtypes.set(slot, dtype);
  for (const { slot, name } of trace.states) dtypes.set(slot, states[name].dtype);
  for (const { slot, name } of trace.constants) dtypes.set(slot, constants.get(name)!);
  let count = 0;
  for (const { op, args, results } of trace.instructions) {
    const narrow = slotsRead(args).some((slot) => halves.has(dtypes.get(slot)!));
    const isMeant = op === 'astype' || rowOps.has(op);
    if (!isMeant && narrow && results.some(({ dtype }) => dtype === 'float32')) count++;
    for (const { slot, dtype } of results) dtypes.set(slot, dtype);
  }
  return count;
}

function constantDtypes(folder: string, { weights }: Manifest): Map<string, Dtype> {
  return mx.tidy(() => {
    const files = weights.map((path) => mx.loadSafetensors(join(folder, path)).tensors);
    return new Map(files.flatMap((file) => [...file].map(([name, { dtype }]) => [name, dtype])));
  });
}

function checkNames(programs: readonly ProgramFile[], { methods = {} }: ExportBudgets): void {
  const known = new Map(programs.map(({ method, traces }) => [method, traces.length]));
  const ops = opRows().map(({ name }) => name);
  for (const [method, { traces }] of Object.entries(methods)) {
    const count = known.get(method);
    if (count === undefined) {
      throw new ProgramError(
        `There is a budget for the method ${quoted(method)}${meant(method, [...known.keys()])}`,
      );
    }
    if (traces && traces.length !== count) {
      throw new ProgramError(
        `The budget of ${method} is for ${traces.length} traces; the method has ${count}.`,
      );
    }
    const named = (traces ?? []).flatMap((trace) => Object.keys(trace.ops ?? {}));
    const unknown = named.find((op) => !ops.includes(op));
    if (unknown !== undefined) {
      throw new ProgramError(
        `The budget of ${method} is for the op ${quoted(unknown)}${meant(unknown, ops)}`,
      );
    }
  }
}

function meant(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  return `, which does not exist${nearest === undefined ? '.' : `: did you mean ${nearest}?`}`;
}
