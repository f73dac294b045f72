/** A model as programs, whose sessions run without the code of the model. */
import {
  CellCache,
  DisposedError,
  SequenceCache,
  UsageError,
  type MxArray,
} from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { nameHint, quoted } from '@mlx-runners/mlx-core/errors';
import {
  NativeProgram,
  type GeneratedTokens,
  type NativeSession,
} from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import { callArguments } from './call-arguments.js';
import type { Manifest, ProgramFile } from './format.js';
import { generationOf, type GenerateOptions } from './generate.js';
import type { LoweredMethod } from './lowered-method.js';
import { abortSignal } from './option-schemas.js';
import type { SessionProfile } from './profile.js';
import type { Signature } from './signature.js';
import { lower, type LoweredProgram } from './tables.js';

export interface CallOptions {
  /**
   * Where the method's `updateAndAttend` finds the tokens before this call's. It has these, too, once the
   * call has succeeded, and no other call may use it until then.
   */
  cache?: SequenceCache | CellCache;
  /** With a cell cache: the sequence of each token of the batch. */
  sequences?: Int32Array;
  /** Ends the call between two chunks of instructions; states are those of before it then. */
  signal?: AbortSignal;
  /** Computes instruction by instruction and measures each, which takes longer. */
  profile?: boolean;
}

const callOptions = z.strictObject({
  cache: z
    .custom<SequenceCache | CellCache>(
      (value) => value instanceof SequenceCache || value instanceof CellCache,
      'must be a SequenceCache or a CellCache',
    )
    .optional(),
  sequences: z
    .custom<Int32Array>((value) => value instanceof Int32Array, 'must be an Int32Array')
    .optional(),
  signal: abortSignal(),
  profile: z.boolean('must be true or false').optional(),
});

export interface CallResult {
  /** By name. */
  outputs: Record<string, MxArray>;
  profile?: SessionProfile;
}

/** What callers need to know of a model's programs: all of an export's manifest that isn't about its files. */
export type ProgramManifest = Pick<
  Manifest,
  'mlx' | 'model' | 'dtype' | 'quantization' | 'constants' | 'states'
> & { methods: Record<string, Signature> };

/** Made by `loadExport`, with the manifest of the folder, and by `compileModel`. */
export class ProgramModel<M extends ProgramManifest = ProgramManifest> {
  readonly manifest: M;
  readonly #methods: LoweredProgram['methods'];
  readonly #program: NativeProgram;

  /**
   * @param constants by name; must be computed
   * @throws ProgramError when programs, states and constants don't fit together
   * @internal Use `loadExport` or `compileModel`.
   */
  constructor(
    manifest: M,
    programs: readonly ProgramFile[],
    constants: ReadonlyMap<string, MxArray>,
  ) {
    const { tables, methods } = lower(programs, manifest.states, constants);
    this.manifest = manifest;
    this.#methods = methods;
    this.#program = new NativeProgram(tables);
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

  /** @internal Use `ProgramModel.session`. */
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
   *   ShapeError for shapes, dtypes and dimensions that don't fit, and for a cache that
   *   doesn't, or is full; ProgramError, MemoryError and others
   *   that name an instruction
   */
  async run(
    method: string,
    inputs: Readonly<Record<string, MxArray | number>>,
    options: CallOptions = {},
  ): Promise<CallResult> {
    const found = this.#method(method);
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

  /**
   * Feeds token ids to a method, samples the next token from the last row of its logits, feeds that, and so on, in
   * one native call; calls of one session run in order. A signal that fires is no error: `ended` says it, and what
   * has been sampled is there. How the tokens are cut into bursts makes no difference to them.
   *
   * @param method one with the input ids int32 [1, T], the dimension past, the output logits [1, 1 or T, vocabulary]
   *   and maybe the input rows int32 [1], which is given T − 1
   * @throws UsageError for another method and for options; what `run` throws, for the first step; NativeError and
   *   UsageError of the sampler, for logits that can't be sampled from
   */
  async generate(method: string, options: GenerateOptions): Promise<GeneratedTokens> {
    return this.#session.generate(generationOf(this.#method(method), options));
  }

  #method(name: string): LoweredMethod {
    if (this.#disposed) throw new DisposedError('This session was disposed.');
    const found = this.#methods.get(name);
    if (found) return found;
    throw new UsageError(
      `There is no method ${quoted(name)}: ${nameHint(name, [...this.#methods.keys()])}`,
    );
  }

  dispose(): void {
    this.#disposed = true;
    this.#session.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
