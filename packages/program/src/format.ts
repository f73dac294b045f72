/**
 * The files of an exported model, as zod schemas. What may change without a new format version: nothing
 * but ops that are added to the table.
 */
import { dtypeNames } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import type { Size } from './sizes.js';

/** Of manifest and programs. Raised when an older reader would misunderstand them. */
export const formatVersion = 1;

const name = z.string().min(1).max(512);
const index = z.int().min(0).max(0xffffffff);
const dtype = z.enum(dtypeNames);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'has to be a SHA-256 in hexadecimal digits');

const size: z.ZodType<Size> = z.lazy(() =>
  z.union([z.int(), name, z.tuple([z.enum(['+', '*', '//', 'max']), size, size])]),
);
const shape = z.array(size).max(64);
const fixedShape = z.array(z.int().min(0).max(0x7fffffff)).max(64);

const dimension = z.strictObject({
  min: z.int().min(0),
  max: z.int().max(0x7fffffff),
  multipleOf: z.int().min(1).optional(),
});

const argument = z.union([
  z.null(),
  z.number(),
  z.boolean(),
  z.string(),
  z.strictObject({ size }),
  z.strictObject({ slot: index }),
  z.strictObject({ slots: z.array(index) }),
  z.strictObject({ list: z.array(size) }),
  // What JSON has no number for.
  z.strictObject({ number: z.enum(['NaN', 'Infinity', '-Infinity', '-0']) }),
]);

const typedSlot = z.strictObject({ slot: index, dtype, shape });

const instruction = z.strictObject({
  op: name,
  args: z.array(argument).max(64),
  results: z.array(typedSlot).max(1024),
  source: index,
});

const traceFile = z.strictObject({
  dimensions: z.record(name, dimension),
  limits: z.array(z.strictObject({ size, max: z.int() })),
  slots: index,
  inputs: z.array(typedSlot.extend({ name })),
  states: z.array(z.strictObject({ name, slot: index, next: index })),
  constants: z.array(z.strictObject({ name, slot: index })),
  outputs: z.array(typedSlot.extend({ name })),
  instructions: z.array(instruction),
});

export const programFile = z.strictObject({
  formatVersion: z.literal(formatVersion),
  method: name,
  /** Files and lines of the model, which instructions refer to by number. */
  sources: z.array(name),
  /** Tried in turn: the first whose dimensions fit a call is run. */
  traces: z.array(traceFile).min(1),
});

const typedName = z.strictObject({ dtype, shape });

export const manifestFile = z.strictObject({
  formatVersion: z.literal(formatVersion),
  /** The version of MLX that it was exported with. */
  mlx: name,
  model: z.strictObject({
    id: name,
    revision: name.optional(),
    license: name.optional(),
  }),
  dtype,
  quantization: z.record(name, z.json()).nullable(),
  /** What callers need to know: context length, mask token … */
  constants: z.record(name, z.json()),
  states: z.record(name, z.strictObject({ dtype, shape: fixedShape })),
  methods: z.record(
    name,
    z.strictObject({
      program: name,
      dimensions: z.record(name, dimension),
      inputs: z.record(name, typedName),
      outputs: z.record(name, typedName),
    }),
  ),
  weights: z.array(name),
  /** Every file beside the manifest, by its path. */
  files: z.record(name, z.strictObject({ bytes: z.int().min(0), sha256 })),
  /** Of this manifest without this line. */
  sha256,
});

export type ArgumentFile = z.output<typeof argument>;
export type TraceFile = z.output<typeof traceFile>;
export type ProgramFile = z.output<typeof programFile>;
export type Manifest = z.output<typeof manifestFile>;

/** The published JSON Schemas, by file name. */
export function jsonSchemas(): Record<string, object> {
  return {
    'manifest.schema.json': z.toJSONSchema(manifestFile),
    'program.schema.json': z.toJSONSchema(programFile),
  };
}
