/** An exported model: a folder that runs without the code of the model. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DisposedError, mx, ProgramError, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { printable, quoted } from '@mlx-runners/mlx-core/errors';
import { NativeProgram, type CallProfile, type NativeSession } from '@mlx-runners/mlx-core/program';
import { fileFacts, parsed, readText, sha256 } from './files.js';
import {
  formatVersion,
  manifestFile,
  programFile,
  type Manifest,
  type ProgramFile,
} from './format.js';
import { lower, type LoweredProgram } from './tables.js';

export const manifestName = 'manifest.json';

export interface CallOptions {
  signal?: AbortSignal;
  /** Computes instruction by instruction and measures each, which takes longer. */
  profile?: boolean;
}

export interface CallResult {
  /** By name. */
  outputs: Record<string, MxArray>;
  profile?: CallProfile;
}

/**
 * Reads the folder's manifest and programs.
 *
 * @throws ProgramError when a file is missing, of another version, changed since the export, or not what
 *   it should be
 */
export function readExport(folder: string): { manifest: Manifest; programs: ProgramFile[] } {
  const manifest = readManifest(folder);
  const programs = Object.entries(manifest.methods).map(([method, { program: path }]) => {
    const text = readText(insideOf(folder, path, manifest));
    if (sha256(text) !== manifest.files[path].sha256) {
      throw new ProgramError(`${join(folder, path)} was changed since it was exported.`);
    }
    const program = parsed(text, programFile, join(folder, path), 'an exported program');
    if (program.method !== method) {
      throw new ProgramError(`${join(folder, path)} holds ${quoted(program.method)}.`);
    }
    return program;
  });
  return { manifest, programs };
}

function readManifest(folder: string): Manifest {
  const path = join(folder, manifestName);
  const text = readText(path);
  const version = versionOf(text);
  if (typeof version === 'number' && version !== formatVersion) {
    throw new ProgramError(
      `${path} has format version ${version}; this version reads ${formatVersion}. Export the model again.`,
    );
  }
  const manifest = parsed(text, manifestFile, path, 'the manifest of an exported model');
  if (manifest.sha256 !== manifestHash(manifest)) {
    throw new ProgramError(`${path} was changed since it was exported.`);
  }
  return manifest;
}

function versionOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { formatVersion?: unknown } | null)?.formatVersion;
  } catch {
    return undefined;
  }
}

export function manifestHash(manifest: Omit<Manifest, 'sha256'>): string {
  return sha256(JSON.stringify({ ...manifest, sha256: undefined }));
}

/** The path of a file that the manifest lists, which never leads out of the folder. */
function insideOf(folder: string, path: string, manifest: Manifest): string {
  const parts = path.split('/');
  const plain = parts.every((part) => /^[\w.-]+$/.test(part) && !/^\.+$/.test(part));
  if (!plain || !Object.hasOwn(manifest.files, path)) {
    throw new ProgramError(`${join(folder, manifestName)} names ${quoted(path)}, no file of it.`);
  }
  return join(folder, ...parts);
}

/** @throws ProgramError for each file that is missing or other than the manifest says; reads all of them */
export function verifyFiles(folder: string): void {
  const { manifest } = readExport(folder);
  for (const [path, { bytes, sha256: hash }] of Object.entries(manifest.files)) {
    const facts = fileFacts(insideOf(folder, path, manifest));
    if (facts.bytes !== bytes || facts.sha256 !== hash) {
      throw new ProgramError(`${join(folder, path)} is not the file that was exported.`);
    }
  }
}

function readConstants(folder: string, manifest: Manifest): Map<string, MxArray> {
  const constants = new Map<string, MxArray>();
  for (const path of manifest.weights) {
    const file = insideOf(folder, path, manifest);
    if (!existsSync(file) || statSync(file).size !== manifest.files[path].bytes) {
      throw new ProgramError(`${file} is missing or cut off.`);
    }
    for (const [name, tensor] of mx.loadSafetensors(file).tensors) constants.set(name, tensor);
  }
  return constants;
}

/** Whether a folder holds an exported model, as far as its name for files tells. */
export function isExport(folder: string): boolean {
  return existsSync(join(folder, manifestName));
}

/** Loads a folder that `exportModel` wrote. Weights are mapped, so that loading reads none of them. */
export function loadExport(folder: string): ExportedModel {
  const { manifest, programs } = readExport(folder);
  return mx.tidy(() => {
    const constants = readConstants(folder, manifest);
    try {
      const lowered = lower(programs, manifest.states, constants);
      return new ExportedModel(manifest, lowered, new NativeProgram(lowered.tables));
    } catch (cause) {
      if (!(cause instanceof ProgramError)) throw cause;
      throw new ProgramError(`${folder}: ${printable(cause.message, 400)}`, { cause });
    }
  });
}

export class ExportedModel {
  readonly manifest: Manifest;
  readonly #methods: LoweredProgram['methods'];
  readonly #program: NativeProgram;

  /** @internal Use `loadExport`. */
  constructor(manifest: Manifest, lowered: LoweredProgram, program: NativeProgram) {
    this.manifest = manifest;
    this.#methods = lowered.methods;
    this.#program = program;
  }

  /** A user of the model with states of its own. Sessions share the weights and run at once. */
  session(): Session {
    return new Session(this.#methods, this.#program.session());
  }

  /** Sessions stay usable. */
  dispose(): void {
    this.#program.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

export class Session {
  readonly #methods: LoweredProgram['methods'];
  readonly #session: NativeSession;
  #disposed = false;

  /** @internal Use `ExportedModel.session`. */
  constructor(methods: LoweredProgram['methods'], session: NativeSession) {
    this.#methods = methods;
    this.#session = session;
  }

  /**
   * Runs a method, off the event loop; calls of one session run in the order in which they were made.
   *
   * @param inputs arrays by name, and as numbers the dimensions that no input's shape has
   * @returns computed outputs by name
   * @throws UsageError for names that the method doesn't have, ShapeError for inputs that don't fit it
   */
  async run(
    method: string,
    inputs: Readonly<Record<string, MxArray | number>>,
    options: CallOptions = {},
  ): Promise<CallResult> {
    if (this.#disposed) throw new DisposedError('This session was disposed.');
    const found = this.#methods.get(method);
    if (!found) {
      const known = [...this.#methods.keys()].join(', ');
      throw new UsageError(`There is no method ${quoted(method)}; there are ${known}.`);
    }
    const surplus = Object.keys(inputs).find(
      (name) => !found.inputs.includes(name) && !found.dimensions.includes(name),
    );
    if (surplus !== undefined) {
      const known = [...found.inputs, ...found.dimensions].join(', ');
      throw new UsageError(`${method} takes ${known}, and no ${quoted(surplus)}.`);
    }
    const { outputs, profile } = await this.#session.run({
      method: found.number,
      inputs: found.inputs.map((name) => arrayNamed(method, name, inputs[name])),
      dimensions: Float64Array.from(found.dimensions, (name) => {
        const given = found.inputs.includes(name) ? undefined : inputs[name];
        return typeof given === 'number' ? given : NaN;
      }),
      ...options,
    });
    const named = found.outputs.map((name, i) => [name, outputs[i]] as const);
    return { outputs: Object.fromEntries(named), profile };
  }

  dispose(): void {
    this.#disposed = true;
    this.#session.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function arrayNamed(method: string, name: string, value: MxArray | number | undefined): MxArray {
  if (value === undefined || typeof value === 'number') {
    throw new UsageError(`${method} needs the array ${name}.`);
  }
  return value;
}
