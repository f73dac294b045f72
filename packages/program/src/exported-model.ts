/** An exported model: a folder that runs without the code of the model. */
import { DisposedError, mx, ProgramError, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { nameHint, printable, quoted } from '@mlx-runners/mlx-core/errors';
import { NativeProgram, type NativeSession } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { callArguments } from './call-arguments.js';
import type { Manifest } from './format.js';
import { abortSignal } from './option-schemas.js';
import type { SessionProfile } from './profile.js';
import { checkedFolder, readConstants, readExport, type ReadExport } from './read-export.js';
import { lower, type LoweredProgram } from './tables.js';

export interface CallOptions {
  /** Ends the call between two chunks of instructions; states are those of before it then. */
  signal?: AbortSignal;
  /** Computes instruction by instruction and measures each, which takes longer. */
  profile?: boolean;
}

const callOptions = z.strictObject({
  signal: abortSignal(),
  profile: z.boolean('must be true or false').optional(),
});

export interface CallResult {
  /** By name. */
  outputs: Record<string, MxArray>;
  profile?: SessionProfile;
}

/**
 * Loads a folder that `exportModel` wrote. Weights are mapped, so that loading reads none of them.
 *
 * @throws ProgramError when anything in it is missing, changed, or doesn't fit together; CheckpointError for
 *   weights that can't be read
 */
export function loadExport(folder: string): ExportedModel {
  return modelOf(folder, readExport(checkedFolder('loadExport()', folder)));
}

/** The model of what was read from a folder. Throws as `loadExport`. */
export function modelOf(folder: string, { manifest, programs }: ReadExport): ExportedModel {
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
   * @param method its name, one of those in the manifest
   * @param inputs arrays by name, and as numbers the dimensions that no input's shape has
   * @returns computed outputs by name
   * @throws UsageError for names that the method doesn't have, and for what is missing or of another kind;
   *   ShapeError for shapes, dtypes and dimensions that don't fit; ProgramError, MemoryError and others
   *   that name an instruction
   */
  async run(
    method: string,
    inputs: Readonly<Record<string, MxArray | number>>,
    options: CallOptions = {},
  ): Promise<CallResult> {
    if (this.#disposed) throw new DisposedError('This session was disposed.');
    const found = this.#methods.get(method);
    if (!found) {
      const hint = nameHint(method, [...this.#methods.keys()]);
      throw new UsageError(`There is no method ${quoted(method)}: ${hint}`);
    }
    const started = performance.now();
    const { outputs, profile } = await this.#session.run({
      method: found.number,
      ...callArguments(found, inputs),
      ...checkOptions('run()', callOptions, options),
    });
    const named = found.outputs.map((name, i) => [name, outputs[i]] as const);
    const wallSeconds = (performance.now() - started) / 1000;
    return { outputs: Object.fromEntries(named), profile: profile && { ...profile, wallSeconds } };
  }

  dispose(): void {
    this.#disposed = true;
    this.#session.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
