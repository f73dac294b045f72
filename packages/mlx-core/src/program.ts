/**
 * What packages/program is built on: the op table, the recording of calls, and the interpreter.
 * Not for other code, and subject to change.
 */
import { MxArray } from './array.js';
import { bind, Tag, typedError } from './call.js';
import { DisposedError, throwIfAborted } from './errors.js';
import type { CellCache, SequenceCache } from './kv-cache.js';
import { withGarbageCollected } from './memory.js';
import { sampledTokens, type NativeSampler, type SampledToken } from './native-sampler.js';
import {
  native,
  type BurstTables,
  type CallProfile,
  type CancelToken,
  type NativeBurst,
  type ProgramHandle,
  type SessionHandle,
} from './native.js';
import { adopt, keep } from './scope.js';

export { interned, Kind, opRows } from './call.js';
export { dtypeNames, dtypeNumber, itemSizes } from './dtype.js';
export type { CallProfile, OpParam, OpProfile, OpRow } from './native.js';
export {
  NativeSampler,
  type Logprob,
  type NativeSampling,
  type SampledToken,
  type TokenLogprobs,
} from './native-sampler.js';
export { recordCalls, type CallRecorder } from './recording.js';
export { isScoped } from './scope.js';
export { Tag };

/** The elements of an array as they lie in memory, row-major. Computes it first, blocking. */
export function bytesOf(array: MxArray): Uint8Array {
  try {
    return new Uint8Array(native().bytes(array.idFor('bytesOf()')));
  } catch (error) {
    throw typedError(error, 'bytesOf()');
  }
}

/** Calls an op by its name. */
export function callOp(name: string, args: readonly unknown[]): MxArray[] {
  const result = bind<(...all: unknown[]) => MxArray | MxArray[]>(name)(...args);
  return Array.isArray(result) ? result : [result];
}

/** A program in the addon's tables: see native/program/tables.cpp. */
export interface ProgramTables {
  words: Float64Array;
  /** 16 bytes each: see native/core/value.h. */
  values: ArrayBuffer;
  lists: Float64Array;
  texts: readonly string[];
  constants: readonly MxArray[];
}

export interface NativeCall {
  method: number;
  inputs: readonly MxArray[];
  /** One for each dimension of the method; NaN where inputs' shapes say it. */
  dimensions: Float64Array;
  /** Where `updateAndAttend` finds what came before; it has the call's tokens when that succeeds. */
  cache?: SequenceCache | CellCache;
  /** With a cell cache: the sequence of each token of the batch. */
  sequences?: Int32Array;
  signal?: AbortSignal;
  profile?: boolean;
}

export interface NativeResult {
  outputs: MxArray[];
  profile?: CallProfile;
}

/** A burst of tokens: see Burst in native/lm/generation.h. */
export interface NativeGeneration extends Omit<NativeBurst, 'stopIds'> {
  sampler: NativeSampler;
  stopIds: ReadonlySet<number> | readonly number[];
  cache?: SequenceCache;
  signal?: AbortSignal;
}

export interface GeneratedTokens {
  /** The last one has not been fed. */
  tokens: SampledToken[];
  /**
   * At `maxTokens` or `maxSeconds`; at a stop id, which is the last token; when the signal fired; or because
   * a step after the first failed, which then is the next burst's first, and throws what is wrong.
   */
  ended: BurstTables['ended'];
  /** How many tokens have been fed, those before this burst included. */
  past: number;
  /** Until the first token was sampled: of feeding `ids`. */
  firstSeconds: number;
  /** Of the whole burst, on its native thread. */
  seconds: number;
}

/** What a file of MLX's own format holds: see MlxfnFile in native/program/mlxfn.h. */
export interface MlxfnFile {
  method: number;
  /** Values of the method's dimensions, all of them. */
  sizes: readonly Float64Array[];
  /** Numbers of the dimensions that are arguments. */
  dimensions: readonly number[];
  /** Numbers of the states that are arguments, and of those whose next values are results. */
  states: readonly number[];
  nextStates: readonly number[];
  signal?: AbortSignal;
}

/** A program that the addon has checked. It lives while sessions of it do. */
export class NativeProgram {
  #handle: ProgramHandle | undefined;

  /** @throws ProgramError when anything in the tables doesn't fit; nothing is computed */
  constructor({ words, values, lists, texts, constants }: ProgramTables) {
    const ids = Float64Array.from(constants, (array) => array.idFor('a constant'));
    try {
      this.#handle = native().createProgram(words, values, lists, texts, ids);
    } catch (error) {
      throw typedError(error);
    }
  }

  session(): NativeSession {
    if (!this.#handle) throw new DisposedError('This program was disposed.');
    try {
      return new NativeSession(native().createSession(this.#handle));
    } catch (error) {
      throw typedError(error);
    }
  }

  /**
   * Writes a method as MLX's own exporter does, on a native thread.
   *
   * @throws ShapeError for sizes that the method doesn't take, ProgramError that names what MLX can't write
   */
  async writeMlxfn(path: string, file: MlxfnFile): Promise<void> {
    const { method, sizes, dimensions, states, nextStates, signal } = file;
    throwIfAborted(signal);
    if (!this.#handle) throw new DisposedError('This program was disposed.');
    const handle = this.#handle;
    const lists = [dimensions, states, nextStates].map((list) => Uint32Array.from(list));
    await cancellable(signal, (token) =>
      native().writeMlxfn(handle, path, method, sizes, lists[0], lists[1], lists[2], token),
    );
  }

  dispose(): void {
    if (this.#handle) native().disposeProgram(this.#handle);
    this.#handle = undefined;
  }
}

/** States of its own, and a lane: calls of one session run one after another. */
export class NativeSession {
  #handle: SessionHandle | undefined;
  /** Settles, never in error, when the inputs of all calls so far are computed; none when they are. */
  #computing: Promise<void> | undefined;

  /** @internal Use `NativeProgram.session`. */
  constructor(handle: SessionHandle) {
    this.#handle = handle;
  }

  /**
   * Runs a method on a native thread.
   *
   * @throws ShapeError for inputs that don't fit, ProgramError and others that name the instruction
   */
  async run(call: NativeCall): Promise<NativeResult> {
    const { method, inputs, dimensions, sequences, signal, profile = false } = call;
    throwIfAborted(signal);
    const cache = call.cache?.act((_, handle) => handle);
    const given = idsOf(inputs);
    const waits = this.#computing !== undefined || !native().areComputed(given);
    const held = waits ? inputs.map(alias) : [];
    const ids = waits ? idsOf(held) : given;
    try {
      return await cancellable(signal, async (token) => {
        if (waits) await this.#compute(ids);
        const result = await withGarbageCollected(() =>
          native().runSession(
            ...([
              this.#opened(),
              method,
              ids,
              dimensions,
              token,
              profile,
              cache,
              sequences,
            ] as const),
          ),
        );
        const outputs = Array.from(result.ids, (id) => adopt(new MxArray(id)));
        return { outputs, profile: result.profile };
      });
    } finally {
      for (const array of held) array.dispose();
    }
  }

  /**
   * Feeds ids, samples the next token, feeds that, and so on, on a native thread. When the signal fires, or has
   * before, that is no error: the result says it, and has the tokens up to then.
   *
   * @throws what the first step throws, as `run` does; NativeError and UsageError of the sampler
   */
  async generate(generation: NativeGeneration): Promise<GeneratedTokens> {
    const { sampler, stopIds, cache, signal, ...burst } = generation;
    if (signal?.aborted) {
      return { tokens: [], ended: 'aborted', past: burst.past, firstSeconds: 0, seconds: 0 };
    }
    const request = { ...burst, stopIds: Int32Array.from(stopIds) };
    const handle = cache?.act((_, each) => each);
    return cancellable(signal, async (token) => {
      // Calls run in the order in which they were made.
      if (this.#computing) await this.#computing;
      const result = await withGarbageCollected(() =>
        native().generateTokens(this.#opened(), sampler.handle, request, token, handle),
      );
      const { ended, past, firstSeconds, seconds } = result;
      return { tokens: sampledTokens(result), ended, past, firstSeconds, seconds };
    });
  }

  /** Computes inputs after those of earlier calls, so that calls run in the order in which they were made. */
  async #compute(ids: Float64Array): Promise<void> {
    const earlier = this.#computing;
    const computed = withGarbageCollected(() => native().evaluate(ids));
    const settled = Promise.allSettled([earlier, computed]).then(() => undefined);
    this.#computing = settled;
    await settled;
    if (this.#computing === settled) this.#computing = undefined;
    await computed;
  }

  #opened(): SessionHandle {
    if (!this.#handle) throw new DisposedError('This session was disposed.');
    return this.#handle;
  }

  /** Frees the states, once a call that runs is done. */
  dispose(): void {
    if (this.#handle) native().disposeSession(this.#handle);
    this.#handle = undefined;
  }
}

function idsOf(arrays: readonly MxArray[]): Float64Array {
  return Float64Array.from(arrays, (array) => array.idFor('an input'));
}

/** The same array under another name, which stays when the given one is disposed. */
function alias(array: MxArray): MxArray {
  return keep(callOp('astype', [array, array.dtype])[0]);
}

/** Work of the addon that a signal cancels, with typed errors. */
async function cancellable<T>(
  signal: AbortSignal | undefined,
  work: (token: CancelToken | undefined) => Promise<T>,
): Promise<T> {
  const token = signal && native().cancelToken();
  const abort = (): void => native().cancel(token!);
  signal?.addEventListener('abort', abort);
  try {
    return await work(token);
  } catch (error) {
    throwIfAborted(signal);
    throw typedError(error);
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}
