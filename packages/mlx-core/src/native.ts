/** The addon: what it exports. */
import type { Dtype } from './dtype.js';
import { loadAddon } from './native-loader.js';

export interface OpParam {
  name: string;
  /** Position in the enumeration `Kind` of native/ops/op.h. */
  kind: number;
  operand: boolean;
  optional: boolean;
  fallback: number | boolean | string | null;
  /** The only values of a string; none for other kinds, and where any is taken. */
  choices: readonly string[];
}

export interface OpRow {
  name: string;
  doc: string;
  many: boolean;
  params: OpParam[];
}

export interface MemoryUsage {
  /** Bytes in live buffers of MLX's allocator. Files mapped into memory are not among them. */
  active: number;
  /** The largest `active` since the start or `resetPeakMemory()`, in bytes. */
  peak: number;
  /** Bytes of freed buffers that the allocator keeps for reuse. */
  cache: number;
  /** The most that `active` may become, in bytes: see `setMemoryLimit`. */
  limit: number;
  /** Bytes of the files that are mapped into memory; the system may drop and reread them. */
  mapped: number;
  /** Arrays of this thread that JavaScript still holds. */
  arrays: number;
}

export interface EvaluationCounts {
  /** Evaluations that run now, each on a native thread of its own. */
  running: number;
  /** Evaluations that wait for a thread, or for an earlier one of their JavaScript thread. */
  waiting: number;
  /** The most that ever ran at once. */
  peak: number;
  /** The most that may run at once. */
  limit: number;
}

export interface BuildInfo {
  /** Version of the loaded libmlx. */
  mlx: string;
  gpu: boolean;
  /** The BLAS library that CPU matrix products run on. */
  blas: string;
  /** Instruction set of the CPU kernels. */
  simd: string;
  /** Threads of the CPU kernels. */
  threads: number;
  lanes: number;
}

export interface MappedFileHandle {
  readonly mappedFile: unique symbol;
}

export interface ProgramHandle {
  readonly program: unique symbol;
}

export interface SessionHandle {
  readonly session: unique symbol;
}

export interface SamplerHandle {
  readonly sampler: unique symbol;
}

/** One field for each of `Sampling` in native/lm/sampler.h but the biases. */
export interface SamplingNumbers {
  temperature: number;
  topK: number;
  topP: number;
  minP: number;
  typicalP: number;
  xtcProbability: number;
  xtcThreshold: number;
  repetitionPenalty: number;
  presencePenalty: number;
  frequencyPenalty: number;
  logprobs: boolean;
  topLogprobs: number;
}

/** Sampled tokens; the rest is there where log-probabilities were asked for. */
export interface TokenTables {
  ids: Int32Array;
  logprobs?: Float64Array;
  /** As many for each token. */
  topIds?: Int32Array;
  topLogprobs?: Float64Array;
}

/** See Burst in native/lm/generation.h. */
export interface NativeBurst {
  method: number;
  rowsInput?: number;
  pastDimension: number;
  logitsOutput: number;
  dimensions: Float64Array;
  ids: Int32Array;
  past: number;
  stopIds: Int32Array;
  maxTokens: number;
  maxSeconds: number;
}

export interface BurstTables extends TokenTables {
  ended: 'limit' | 'stop' | 'aborted' | 'interrupted';
  past: number;
  firstSeconds: number;
  seconds: number;
}

export interface CacheHandle {
  readonly cache: unique symbol;
}

export interface CancelToken {
  readonly cancelToken: unique symbol;
}

/** What one op took in all instructions of a call. */
export interface OpProfile {
  op: string;
  /** Instructions. */
  count: number;
  /** Of computing, building excluded. */
  seconds: number;
  /** Of operands and results. */
  bytes: number;
}

export interface CallProfile {
  ops: OpProfile[];
  /** Of the whole call, on its native thread. */
  seconds: number;
}

export type GgufNumbers =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float32Array
  | Float64Array;

/** Integers of 64 bits are numbers where these are exact; lists of numbers are typed arrays. */
export type GgufValue = number | bigint | boolean | string | GgufNumbers | readonly GgufValue[];

export interface GgufTensorEntry {
  name: string;
  /** Row-major, in elements. */
  shape: number[];
  /** ggml's name for the element type, or its number where that is unknown. */
  format: string;
  /** None where nothing computes with the type; then no `start` either. */
  dtype?: Dtype;
  /** The byte of the file. */
  start?: number;
  /** Of tensors in blocks, whose rows are so many uint8. */
  rowBytes?: number;
}

export interface Native {
  layout: { values: number; listsAt: number; lists: number; resultsAt: number; total: number };
  /** Returns the buffer to use: an earlier one, when another copy of this package gave it. */
  attach(exchange: ArrayBuffer): ArrayBuffer;
  ops(): OpRow[];
  intern(text: string): number;
  invoke(op: number, argumentCount: number, tracked: boolean): number;
  describe(id: number): number;
  drop(ids: Float64Array): void;
  track(id: number): void;
  fromBytes(bytes: Uint8Array, dtype: number, shape: readonly number[], tracked: boolean): number;
  evaluate(ids: Float64Array): Promise<void>;
  evaluateSync(ids: Float64Array): void;
  read(id: number): Promise<ArrayBuffer>;
  readSync(id: number): ArrayBuffer;
  bytes(id: number): ArrayBuffer;
  mapFile(path: string): MappedFileHandle;
  mappedArray(
    file: MappedFileHandle,
    byteOffset: number,
    dtype: number,
    shape: readonly number[],
    tracked: boolean,
  ): number;
  unmapFile(file: MappedFileHandle): void;
  /** Keys and values of the metadata in turn. */
  readGguf(file: MappedFileHandle): { metadata: unknown[]; tensors: GgufTensorEntry[] };
  /** See native/program/tables.cpp. */
  createProgram(
    words: Float64Array,
    values: ArrayBuffer,
    lists: Float64Array,
    texts: readonly string[],
    constants: Float64Array,
  ): ProgramHandle;
  disposeProgram(program: ProgramHandle): void;
  createSession(program: ProgramHandle): SessionHandle;
  disposeSession(session: SessionHandle): void;
  /** Dimensions that no input's shape has are given; the others are NaN. */
  runSession(
    session: SessionHandle,
    method: number,
    inputs: Float64Array,
    dimensions: Float64Array,
    cancelToken: CancelToken | undefined,
    profile: boolean,
    cache: CacheHandle | undefined,
    sequences: Int32Array | undefined,
  ): Promise<{ ids: Float64Array; profile?: CallProfile }>;
  /** See MlxfnFile in native/program/mlxfn.h. */
  writeMlxfn(
    program: ProgramHandle,
    path: string,
    method: number,
    sizes: readonly Float64Array[],
    dimensions: Uint32Array,
    states: Uint32Array,
    nextStates: Uint32Array,
    cancelToken: CancelToken | undefined,
  ): Promise<void>;
  /** `biases`: ids and what is added to their logits, in turn. */
  createSampler(sampling: SamplingNumbers, biases: Float64Array, seed: bigint): SamplerHandle;
  sampleToken(sampler: SamplerHandle, logits: Float32Array): TokenTables;
  addToken(sampler: SamplerHandle, id: number): void;
  generateTokens(
    session: SessionHandle,
    sampler: SamplerHandle,
    burst: NativeBurst,
    cancelToken: CancelToken | undefined,
    cache: CacheHandle | undefined,
  ): Promise<BurstTables>;
  /** Layers are four numbers each: kvHeads, headSize, valueSize and window (0: none); maxWrite 0: the least window. */
  createSequenceCache(
    layers: Int32Array,
    storage: string,
    capacity: number,
    batch: number,
    initialCapacity: number,
    maxWrite: number,
  ): CacheHandle;
  createCellCache(layers: Int32Array, storage: string, cells: number): CacheHandle;
  disposeCache(cache: CacheHandle): void;
  cacheBytes(cache: CacheHandle): number;
  /** For tests: the cache's layers attend by MLX's own ops from now on. */
  composeCache(cache: CacheHandle): void;
  sequenceLength(cache: CacheHandle): number;
  maxWrite(cache: CacheHandle): number;
  canRewind(cache: CacheHandle, length: number): boolean;
  rewindCache(cache: CacheHandle, length: number): void;
  emptyCache(cache: CacheHandle): void;
  copyCache(cache: CacheHandle): CacheHandle;
  cacheState(cache: CacheHandle): Promise<{ names: string[]; ids: Float64Array }>;
  loadCache(cache: CacheHandle, names: readonly string[], ids: Float64Array): void;
  openCells(cache: CacheHandle): number;
  freeCells(cache: CacheHandle): number;
  cellsLength(cache: CacheHandle, sequence: number): number;
  forkCells(cache: CacheHandle, sequence: number, length: number): number;
  removeCells(cache: CacheHandle, sequence: number, from: number, to: number): void;
  closeCells(cache: CacheHandle, sequence: number): void;
  areComputed(ids: Float64Array): boolean;
  cancelToken(): CancelToken;
  cancel(token: CancelToken): void;
  memory(): MemoryUsage;
  setMemoryLimit(bytes: number): void;
  collectGarbage(): void;
  resetPeakMemory(): void;
  clearCache(): void;
  useGpu(gpu: boolean): void;
  onGpu(): boolean;
  useThreads(count: number): void;
  evaluations(): EvaluationCounts;
  buildInfo(): BuildInfo;
  /** Waits for what is being evaluated; nothing can be evaluated afterwards. */
  finish(): void;
}

function opened(addon: Native): Native {
  // process.exit() destroys what libmlx computes with, whether or not it is in use.
  process.once('exit', () => addon.finish());
  warnOfSimd(addon);
  return addon;
}

function warnOfSimd(addon: Native): void {
  const asked = process.env.MLX_RUNNERS_SIMD;
  if (!asked) return;
  const { simd } = addon.buildInfo();
  if (asked !== simd) {
    process.emitWarning(`MLX_RUNNERS_SIMD is ${asked}, which can't be had here: it is ${simd}.`);
  }
}

let loaded: Native | undefined;

/**
 * The addon, loaded when it is first needed, so that `--help` works without it.
 *
 * @throws NativeError naming each place tried and the remedies for this platform
 */
export function native(): Native {
  return (loaded ??= opened(loadAddon() as Native));
}
