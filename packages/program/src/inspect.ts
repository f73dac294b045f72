/** What is in an exported model, for people and for checks. */
import { join } from 'node:path';
import { mx, type Dtype } from '@mlx-runners/mlx-core';
import { printable } from '@mlx-runners/mlx-core/errors';
import { itemSizes } from '@mlx-runners/mlx-core/program';
import { modelOf } from './load-export.js';
import type { Manifest, TraceFile } from './format.js';
import { peakBytes } from './memory-estimate.js';
import type { MlxfnManifest, MlxfnMethod } from './mlxfn-format.js';
import { checkedFolder, readExport } from './read-export.js';
import { formatSize, type Sizes } from './sizes.js';

export interface TraceReport {
  dimensions: Manifest['methods'][string]['dimensions'];
  instructions: number;
  /** Instructions by op, the most frequent first. */
  ops: Record<string, number>;
  /** Slots of neither inputs, constants nor states. */
  temporaries: number;
  /** An estimate of what temporary arrays take, at the smallest and the largest dimensions. */
  peakBytes: { smallest: number; largest: number };
}

export interface ExportReport {
  manifest: Manifest;
  /** By method. */
  methods: Record<string, { bytes: number; traces: TraceReport[] }>;
  /** Of the weights, by dtype. */
  weightBytes: Partial<Record<Dtype, number>>;
  /** Of one session. */
  stateBytes: number;
  /** Of all files. */
  bytes: number;
}

/** @throws ProgramError when the folder holds no valid export */
export function inspectExport(folder: string): ExportReport {
  const read = readExport(checkedFolder('inspectExport()', folder));
  // Refuses what the interpreter would refuse.
  modelOf(folder, read).dispose();
  const { manifest, programs } = read;
  const methods = programs.map(({ method, traces }) => {
    const { bytes } = manifest.files[manifest.methods[method].program];
    return [method, { bytes, traces: traces.map(reportOf) }] as const;
  });
  const states = Object.values(manifest.states).map(({ dtype, shape }) =>
    shape.reduce((product, size) => product * size, itemSizes[dtype]),
  );
  return {
    manifest,
    methods: Object.fromEntries(methods),
    weightBytes: weightBytes(folder, manifest),
    stateBytes: states.reduce((sum, bytes) => sum + bytes, 0),
    bytes: Object.values(manifest.files).reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

function reportOf(trace: TraceFile): TraceReport {
  const counts = new Map<string, number>();
  for (const { op } of trace.instructions) counts.set(op, (counts.get(op) ?? 0) + 1);
  const { inputs, constants, states } = trace;
  const at = (end: 'min' | 'max'): Sizes =>
    Object.fromEntries(
      Object.entries(trace.dimensions).map(([name, dimension]) => [name, dimension[end]]),
    );
  return {
    dimensions: trace.dimensions,
    instructions: trace.instructions.length,
    ops: Object.fromEntries([...counts].sort(([, a], [, b]) => b - a)),
    temporaries: trace.slots - inputs.length - constants.length - states.length,
    peakBytes: { smallest: peakBytes(trace, at('min')), largest: peakBytes(trace, at('max')) },
  };
}

function weightBytes(folder: string, manifest: Manifest): ExportReport['weightBytes'] {
  const bytes: ExportReport['weightBytes'] = {};
  mx.tidy(() => {
    for (const path of manifest.weights) {
      for (const { dtype, nbytes } of mx.loadSafetensors(join(folder, path)).tensors.values()) {
        bytes[dtype] = (bytes[dtype] ?? 0) + nbytes;
      }
    }
  });
  return bytes;
}

const units = ['kB', 'MB', 'GB', 'TB'];

/** `640 bytes`, `1.50 kB`, `23.4 MB`: three digits. */
export function inUnits(bytes: number): string {
  const unit = units.findLastIndex((_, i) => bytes >= 1000 ** (i + 1));
  if (unit === -1) return `${bytes} bytes`;
  const value = bytes / 1000 ** (unit + 1);
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${units[unit]}`;
}

/** The report as lines of text. */
export function formatReport({
  manifest,
  methods,
  weightBytes: weights,
  ...sums
}: ExportReport): string {
  const { model, dtype, mlx, constants } = manifest;
  const ofDtypes = Object.entries(weights).map(([name, bytes]) => `${name} ${inUnits(bytes)}`);
  const lines = [
    `${formatOrigin(model)}; ${dtype}; format ${manifest.formatVersion}, MLX ${mlx}`,
    `weights ${ofDtypes.join(', ') || 'none'}; states ${inUnits(sums.stateBytes)}; all files ${inUnits(sums.bytes)}`,
    ...Object.entries(constants).map(([name, value]) => `  ${name}: ${formatConstant(value)}`),
  ];
  for (const [name, { traces }] of Object.entries(methods)) {
    const { inputs, outputs } = manifest.methods[name];
    lines.push(`${name}(${typesOf(inputs)}) → ${typesOf(outputs) || 'states'}`);
    for (const trace of traces) lines.push(...formatTrace(trace));
  }
  return `${lines.join('\n')}\n`;
}

/** Of files for MLX, the report as lines of text. */
export function formatMlxfn({ model, dtype, mlx, methods, files }: MlxfnManifest): string {
  const lines = [`${formatOrigin(model)}; ${dtype}; MLX ${mlx} only`];
  const withStates = (types: MlxfnMethod['inputs'], { length }: readonly string[]): string =>
    [typesOf(types), length > 0 ? `${length} states` : ''].filter(Boolean).join(', ');
  for (const [name, method] of Object.entries(methods)) {
    const { file, inputs, states, outputs, nextStates, sizes } = method;
    const given = withStates(inputs, Object.keys(states));
    lines.push(
      `${name}(${given}) → ${withStates(outputs, nextStates)}`,
      `  ${file}, ${inUnits(files[file].bytes)}; sizes: ${sizes.length}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

/** As JSON; lists of equal values, such as one for each layer, as `30 x 3`. */
function formatConstant(value: unknown): string {
  const values: readonly unknown[] = Array.isArray(value) ? value : [];
  const [first, ...others] = values.map((each) => JSON.stringify(each));
  const areEqual = others.length > 0 && others.every((each) => each === first);
  return printable(areEqual ? `${values.length} x ${first}` : JSON.stringify(value));
}

function formatOrigin({ id, revision, license }: Manifest['model']): string {
  return [id, revision, license].filter(Boolean).join(', ');
}

function typesOf(types: Manifest['methods'][string]['inputs']): string {
  return Object.entries(types)
    .map(([name, { dtype, shape }]) => `${name}: ${dtype}[${shape.map(formatSize).join(', ')}]`)
    .join(', ');
}

function formatTrace(trace: TraceReport): string[] {
  const ranges = Object.entries(trace.dimensions).map(([name, { min, max, multipleOf }]) => {
    const steps = multipleOf === undefined ? '' : `, multiples of ${multipleOf}`;
    return `${name} ${min} to ${max}${steps}`;
  });
  const ops = Object.entries(trace.ops).map(([op, count]) => `${op} ${count}`);
  const { smallest, largest } = trace.peakBytes;
  const peak =
    smallest === largest ? inUnits(largest) : `${inUnits(smallest)} to ${inUnits(largest)}`;
  return [
    ...(ranges.length > 0 ? [`  ${ranges.join('; ')}`] : []),
    `  ${trace.instructions} instructions, ${trace.temporaries} temporary slots, about ${peak}`,
    `  ${ops.join(', ')}`,
  ];
}
