import { availableParallelism, cpus, totalmem } from 'node:os';
import { z } from 'zod';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';

/**
 * The bench file format, `bench/results/<name>.json`. Ours and the peer's figure of a row come from
 * one run on one machine, measured in turns.
 */

const machineSchema = z.strictObject({
  cpu: z.string(),
  /** Cores that this process may use. */
  cores: z.int().positive(),
  memoryGiB: z.number().positive(),
  platform: z.string(),
  node: z.string(),
});

const rowSchema = z.strictObject({
  what: z.string().min(1),
  ours: z.number().positive(),
  peer: z.number().positive(),
  peerName: z.string().min(1),
  unit: z.string().min(1),
  /** How many times better ours is: speed up, time and memory down. */
  ratio: z.number().positive(),
  /** The least ratio that is asked for; null where nothing is. */
  goal: z.number().positive().nullable(),
});

export const benchFileSchema = z.strictObject({
  machine: machineSchema,
  rows: z.array(rowSchema).min(1),
});

export type BenchFile = z.output<typeof benchFileSchema>;
export type BenchRow = z.output<typeof rowSchema>;
export type Machine = z.output<typeof machineSchema>;

/** A row with its ratio, which depends on what is better: `lower` for times and memory. */
export function benchRow({
  better,
  ...row
}: Omit<BenchRow, 'ratio'> & { better: 'lower' | 'higher' }): BenchRow {
  const ratio = better === 'lower' ? row.peer / row.ours : row.ours / row.peer;
  return { ...row, ratio: Number(ratio.toPrecision(4)) };
}

export function machineDescription(): Machine {
  const gibibytes = totalmem() / 2 ** 30;
  return {
    cpu: cpus()[0]?.model.trim() || 'unknown',
    cores: availableParallelism(),
    memoryGiB: Number(gibibytes.toFixed(1)),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
  };
}

/**
 * Writes a bench file, whole or not at all.
 *
 * @throws UsageError for rows that don't fit the format, such as a figure that is NaN or 0.
 */
export async function writeBenchFile(path: string, bench: BenchFile): Promise<void> {
  const parsed = benchFileSchema.safeParse(bench);
  if (!parsed.success) {
    throw new UsageError(`Not a bench result: ${z.prettifyError(parsed.error)}`);
  }
  await writeWholeFile(path, `${JSON.stringify(parsed.data, null, 2)}\n`);
}

/** The rows as an aligned table, for people. */
export function benchTable(rows: readonly BenchRow[]): string {
  const cells = rows.map(({ what, ours, peer, peerName, unit, ratio, goal }) => [
    what,
    `${figure(ours)} ${unit}`,
    `${figure(peer)} ${unit}`,
    peerName,
    `${figure(ratio)}x`,
    goal === null ? '' : `${figure(goal)}x ${ratio >= goal ? 'met' : 'missed'}`,
  ]);
  const table = [['what', 'ours', 'peer', 'peer is', 'ratio', 'goal'], ...cells];
  const widths = table[0].map((_, column) => Math.max(...table.map((row) => row[column].length)));
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join('');
}

/** Three significant digits, without an exponent. */
function figure(value: number): string {
  if (Math.abs(value) >= 100) return value.toFixed(0);
  return String(Number(value.toPrecision(3)));
}
