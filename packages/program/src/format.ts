/**
 * The files of an exported model, as zod schemas. What may change without a new format version: nothing
 * but ops that are added to the table.
 */
import { printable } from '@mlx-runners/mlx-core/errors';
import { dtypeNames } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { packingFile } from './quantisation.js';
import type { Size } from './sizes.js';

/** Of manifest and programs. Raised when an older reader would misunderstand them. */
export const formatVersion = 1;

/** What is where in the folder. */
export const manifestName = 'manifest.json';
export const weightsName = 'weights.safetensors';

export function programPath(method: string): string {
  return `programs/${method}.json`;
}

// Fit for messages as they are, and no name that JavaScript's objects take for something else.
const name = z
  .string()
  .min(1)
  .max(512)
  .regex(/^(?!__proto__$)[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]+$/u, 'has characters that no name has');

/** Methods become files: `programs/<method>.json`. */
export const methodName = z
  .string()
  .max(100)
  .regex(
    /^(?!__proto__$)[A-Za-z_][\w-]*$/,
    'must be named by letters, digits, _ and -, and begin with a letter or _',
  );

/** Of a file in the folder. No part of it leads anywhere else. */
export const filePath = z
  .string()
  .max(512)
  .regex(
    /^(?!(?:.*\/)?\.+(?:\/|$))(?!__proto__$)[\w.-]+(?:\/[\w.-]+)*$/,
    'must be the path of a file inside the folder, of letters, digits, _, . and -',
  );

const index = z.int().min(0).max(0xffffffff);
const dtype = z.enum(dtypeNames);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'has to be a SHA-256 in hexadecimal digits');

const sizeTree: z.ZodType<Size> = z.lazy(() =>
  z.union([z.int(), name, z.tuple([z.enum(['+', '*', '//', 'max']), sizeTree, sizeTree])]),
);
const size = sizeTree.refine((tree) => isShallow(tree, 100), 'is nested too deeply');
const shape = z.array(size).max(64);
const fixedShape = z.array(z.int().min(0).max(0x7fffffff)).max(64);

const dimension = z.strictObject({
  min: z.int().min(0),
  max: z.int().max(0x7fffffff),
  multipleOf: z.int().min(1).optional(),
});

const argument = z.union([
  // Most are slots, and the first that fits is taken.
  z.strictObject({ slot: index }),
  z.null(),
  z.number(),
  z.boolean(),
  z.string().max(512),
  z.strictObject({ size }),
  z.strictObject({ slots: z.array(index) }),
  z.strictObject({ list: z.array(size) }),
  // What JSON has no number for.
  z.strictObject({ number: z.literal(['NaN', 'Infinity', '-Infinity', '-0']) }),
]);

const typedSlot = z.strictObject({ slot: index, dtype, shape });

const instruction = z.strictObject({
  op: name,
  args: z.array(argument).max(64),
  results: z.array(typedSlot).max(1024),
  source: index,
});

const traceFile = z
  .strictObject({
    dimensions: z.record(name, dimension),
    limits: z.array(z.strictObject({ size, max: z.int() })),
    slots: index,
    inputs: z.array(typedSlot.extend({ name })),
    states: z.array(z.strictObject({ name, slot: index, next: index })),
    constants: z.array(z.strictObject({ name, slot: index })),
    outputs: z.array(typedSlot.extend({ name })),
    instructions: z.array(instruction),
  })
  .superRefine(({ dimensions, inputs, states, constants, outputs }, context) => {
    // A call gives inputs and dimensions by name, as one object.
    const given = [...inputs, ...Object.keys(dimensions).map((each) => ({ name: each }))];
    for (const [list, named] of Object.entries({ inputs: given, states, constants, outputs })) {
      const again = repeated(named.map((each) => each.name));
      if (again === undefined) continue;
      const message = `two are called ${printable(again, 60)}`;
      context.addIssue({ code: 'custom', path: [list], message });
    }
  });

export const programFile = z.strictObject({
  formatVersion: z.literal(formatVersion),
  method: methodName,
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
  /** Of weights that the export quantised; those that a checkpoint has packed itself are not among them. */
  quantization: z
    .strictObject({
      linear: packingFile.optional(),
      /** Of linear layers in some methods, when it is another. */
      encoder: packingFile.extend({ methods: z.array(methodName) }).optional(),
      embedding: packingFile.optional(),
    })
    .nullable(),
  /** What callers need to know: context length, mask token … */
  constants: z.record(name, z.json()),
  states: z.record(name, z.strictObject({ dtype, shape: fixedShape })),
  methods: z.record(
    methodName,
    z.strictObject({
      program: filePath,
      dimensions: z.record(name, dimension),
      inputs: z.record(name, typedName),
      outputs: z.record(name, typedName),
    }),
  ),
  weights: z.array(filePath),
  /** Every file beside the manifest, by its path. */
  files: z.record(filePath, z.strictObject({ bytes: z.int().min(0), sha256 })),
  /** Of this manifest without this line. */
  sha256,
});

export type ArgumentFile = z.output<typeof argument>;
export type TraceFile = z.output<typeof traceFile>;
export type ProgramFile = z.output<typeof programFile>;
export type Manifest = z.output<typeof manifestFile>;

/** The slots that an instruction reads, in order. */
export function slotsRead(args: readonly ArgumentFile[]): number[] {
  return args.flatMap((arg) => {
    if (typeof arg !== 'object' || arg === null) return [];
    if ('slot' in arg) return [arg.slot];
    return 'slots' in arg ? arg.slots : [];
  });
}

function isShallow(tree: Size, depth: number): boolean {
  if (typeof tree !== 'object') return true;
  return depth > 0 && isShallow(tree[1], depth - 1) && isShallow(tree[2], depth - 1);
}

/** The first that was there before. */
export function repeated(names: readonly string[]): string | undefined {
  const seen = new Set<string>();
  return names.find((each) => seen.size === seen.add(each).size);
}

/** The published JSON Schemas, by file name. */
export function jsonSchemas(): Record<string, object> {
  return {
    'manifest.schema.json': z.toJSONSchema(manifestFile),
    'program.schema.json': z.toJSONSchema(programFile),
  };
}
