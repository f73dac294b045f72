/** What is exported, held against what can be. */
import { isDeepStrictEqual } from 'node:util';
import { MxArray, UsageError, type Dtype } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { nameHint, printable, quoted } from '@mlx-runners/mlx-core/errors';
import { dtypeNames } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { fileSize } from './files.js';
import { filePath, methodName, type Manifest } from './format.js';
import type { Method } from './method.js';
import type { Pass } from './passes/pass.js';
import { weightQuantisation, type WeightQuantisation } from './quantisation.js';

export interface ExportDescription {
  /** Where it comes from: an id such as `openai/whisper-base`, a commit of it, and an SPDX licence. */
  model: { id: string; revision?: string; license?: string };
  /** Of activations and weights that are not quantised; it is published, and converts nothing. */
  dtype: Dtype;
  /**
   * Of linear layers, after all passes. What a checkpoint has packed already stays as it is; when nothing else is
   * left to quantise, that is an error.
   */
  qlinear?: WeightQuantisation;
  /** Of linear layers in `encoderMethods`; as `qlinear` unless given. */
  qlinearEncoder?: WeightQuantisation;
  encoderMethods?: readonly string[];
  /** Of tables of embeddings. One that a linear layer reads too is quantised once, for both. */
  qembedding?: WeightQuantisation;
  /** Published constants: context length, mask token … Anything that JSON can say. */
  constants?: Manifest['constants'];
  /**
   * By name (letters, digits, _ and -): a method, or its traces, of which the first whose dimensions fit a
   * call is run.
   */
  methods: Readonly<Record<string, Method | readonly Method[]>>;
  /** The model's parameters by name, such as `Module.parameters()`. They are stored when a method uses them. */
  parameters: ReadonlyMap<string, MxArray>;
  /** What runs between trace and writing: all passes, unless given. */
  passes?: readonly Pass[];
  /** Further files, such as the tokenizer: their paths in the folder, and where they are copied from. */
  files?: Readonly<Record<string, string>>;
}

const text = z
  .string('must be a text')
  .min(1, 'must be a text that is not empty')
  .max(512, 'must be a text of at most 512 characters');

const modelNames = 'must be an object with an id, and a revision and license if there are any';

const descriptionSchema = z.strictObject({
  model: z.strictObject(
    { id: text, revision: text.optional(), license: text.optional() },
    modelNames,
  ),
  dtype: z.enum(dtypeNames, `must be one of ${dtypeNames.join(', ')}`),
  qlinear: weightQuantisation.optional(),
  qlinearEncoder: weightQuantisation.optional(),
  encoderMethods: z.array(z.string(), 'must be a list of names of methods').optional(),
  qembedding: weightQuantisation.optional(),
  constants: z
    .record(
      z.string(),
      z.custom<Manifest['constants'][string]>(isJson, 'must be what JSON can say'),
      'must be an object',
    )
    .optional(),
  methods: z
    .record(
      methodName,
      // Held against what methods are when they are traced.
      z.custom<Method | readonly Method[]>(),
      'must be an object of methods by name',
    )
    .refine((methods) => Object.keys(methods).length > 0, 'must have at least one method'),
  parameters: z.custom<ReadonlyMap<string, MxArray>>(
    (value) => value instanceof Map,
    'must be a Map of arrays by name',
  ),
  passes: z
    .array(
      z.custom<Pass>((value) => typeof value === 'function', 'must be a function'),
      'must be a list of passes',
    )
    .optional(),
  files: z
    .record(filePath, z.string('must be the path of a file'), 'must be an object of paths')
    .optional(),
});

function isJson(value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(JSON.stringify(value)), value);
  } catch {
    // Nothing, a circle, or nested too deeply.
    return false;
  }
}

/** The files that an export writes beside those that are given. */
export interface OwnPaths {
  ofMethod: (method: string) => string;
  others: readonly string[];
}

/**
 * The description as it can be exported, as far as that is known before tracing.
 *
 * @param call whose argument it is, for the message
 * @param own what is written beside the description's files; nothing when no files are
 * @throws UsageError naming the first part that is unknown or wrong, and what would be right
 */
export function checkDescription(call: string, given: unknown, own?: OwnPaths): ExportDescription {
  const description = checkOptions(call, descriptionSchema, given);
  checkNames(given as ExportDescription);
  checkParameters(description.parameters);
  checkEncoderMethods(description);
  if (!own) return description;
  checkPaths(description, own);
  for (const [path, source] of Object.entries(description.files ?? {})) {
    if (fileSize(source) !== undefined) continue;
    throw new UsageError(`files.${path}: there is no file ${printable(source)}.`);
  }
  return description;
}

/** Zod leaves such a name out, without a word. */
function checkNames({ constants = {}, methods, files = {} }: ExportDescription): void {
  for (const [part, names] of Object.entries({ constants, methods, files })) {
    if (!Object.hasOwn(names, '__proto__')) continue;
    throw new UsageError(`${part} can't have anything by the name of __proto__.`);
  }
}

function checkParameters(parameters: ReadonlyMap<unknown, unknown>): void {
  for (const [name, array] of parameters) {
    if (typeof name !== 'string') {
      throw new UsageError(`parameters must be named by texts, not ${quoted(name)}.`);
    }
    if (array instanceof MxArray) continue;
    const place = `parameters.${printable(name, 60)}`;
    throw new UsageError(`${place} must be an MxArray, not ${quoted(array)}.`);
  }
}

function checkEncoderMethods(description: ExportDescription): void {
  const { methods, encoderMethods = [], qlinearEncoder } = description;
  const unknown = encoderMethods.find((name) => !Object.hasOwn(methods, name));
  if (unknown !== undefined) {
    throw new UsageError(
      `encoderMethods: there is no method ${quoted(unknown)}: ${nameHint(unknown, Object.keys(methods))}`,
    );
  }
  if (qlinearEncoder && encoderMethods.length === 0) {
    throw new UsageError('qlinearEncoder goes with encoderMethods, and this model has no encoder.');
  }
}

/** No two files are in each other's place, nor where capital letters count as small ones. */
function checkPaths({ methods, files = {} }: ExportDescription, own: OwnPaths): void {
  const taken: string[] = [];
  const take = (path: string, what: string): void => {
    const place = `${path.toLowerCase()}/`;
    const other = taken.find((each) => {
      const otherPlace = `${each.toLowerCase()}/`;
      return place.startsWith(otherPlace) || otherPlace.startsWith(place);
    });
    if (other !== undefined) throw new UsageError(`${what}: ${other} is in the place of ${path}.`);
    taken.push(path);
  };
  for (const method of Object.keys(methods)) take(own.ofMethod(method), `methods.${method}`);
  for (const path of own.others) take(path, path);
  for (const path of Object.keys(files)) take(path, `files.${path}`);
}
