/**
 * Caches of keys and values that are no part of a program: they are given to its calls, whose
 * `updateAndAttend` finds them. The same program serves one sequence or many, in any storage.
 */
import { MxArray } from './array.js';
import { shown, typedError } from './call.js';
import { DisposedError, nameHint, UsageError } from './errors.js';
import { native, type CacheHandle } from './native.js';
import { adopt } from './scope.js';

/** q8 and q4: 8 and 4 bits with a scale and a bias for every 32 numbers of a head. */
export const kvStorages = ['float32', 'float16', 'bfloat16', 'q8', 'q4'] as const;

export type KvStorage = (typeof kvStorages)[number];

/** What a layer's cache holds of a token. */
export interface KvLayer {
  /** Heads of keys and values. */
  kvHeads: number;
  /** Numbers of a key. */
  headSize: number;
  /** Numbers of a value; `headSize` unless given. */
  valueSize?: number;
  /** How many keys a query sees, its own included; all of them unless given. */
  window?: number;
}

export interface SequenceCacheOptions {
  /** The layers by the number that `updateAndAttend` names. */
  layers: readonly KvLayer[];
  /** Tokens that a sequence may have. */
  capacity: number;
  /** Sequences, all of one length; 1 unless given. */
  batch?: number;
  /** float32 unless given. */
  storage?: KvStorage;
  /** Tokens that layers without a window have room for at first, before they grow; 512 unless given. */
  initialCapacity?: number;
  /** The most tokens of one call where layers have windows; the least window unless given. */
  maxWrite?: number;
}

export interface CellCacheOptions {
  layers: readonly KvLayer[];
  /** Tokens of all sequences together; what they share counts once. */
  cells: number;
  storage?: KvStorage;
}

/** What both caches have in common. */
abstract class KvCache {
  #handle: CacheHandle | undefined;

  /** @internal */
  constructor(handle: CacheHandle) {
    this.#handle = handle;
  }

  /** Of the memory for keys and values. */
  get bytes(): number {
    return this.act((addon, cache) => addon.cacheBytes(cache));
  }

  /**
   * Calls the addon with the cache.
   * @internal
   */
  act<T>(action: (addon: ReturnType<typeof native>, cache: CacheHandle) => T): T {
    if (!this.#handle) throw new DisposedError('This cache was disposed.');
    try {
      return action(native(), this.#handle);
    } catch (error) {
      throw typedError(error);
    }
  }

  /** Frees the memory, once a call that runs is done. */
  dispose(): void {
    if (this.#handle) native().disposeCache(this.#handle);
    this.#handle = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Keys and values of sequences that grow together: one, or a batch of one length. */
export class SequenceCache extends KvCache {
  readonly capacity: number;

  readonly #options: SequenceCacheOptions;

  /**
   * @param handle what `copy` has made already
   * @throws UsageError for options that can't be; MemoryError
   */
  constructor(options: SequenceCacheOptions, handle?: CacheHandle) {
    const known = ['layers', 'capacity', 'batch', 'storage', 'initialCapacity', 'maxWrite'];
    checkNames('SequenceCache', options, known);
    const { capacity, batch = 1, initialCapacity = 512, maxWrite = 0 } = options;
    const layers = layerNumbers(options.layers);
    const storage = checkedStorage(options.storage);
    checkWhole('capacity', capacity, 1);
    checkWhole('batch', batch, 1);
    checkWhole('initialCapacity', initialCapacity, 0);
    if (options.maxWrite !== undefined) checkWhole('maxWrite', maxWrite, 1);
    super(
      handle ??
        made(() =>
          native().createSequenceCache(layers, storage, capacity, batch, initialCapacity, maxWrite),
        ),
    );
    this.capacity = capacity;
    this.#options = options;
  }

  /** Tokens in it, which is the position of the next. */
  get length(): number {
    return this.act((addon, cache) => addon.sequenceLength(cache));
  }

  /** The most tokens of one call. */
  get maxWrite(): number {
    return this.act((addon, cache) => addon.maxWrite(cache));
  }

  /** Whether so many more tokens fit. */
  canExtend(tokens: number): boolean {
    checkWhole('tokens', tokens, 0);
    return this.length + tokens <= this.capacity;
  }

  /** Whether what tokens from `length` on see is still there: windows move on. */
  canRewind(length: number): boolean {
    checkWhole('length', length, 0);
    return this.act((addon, cache) => addon.canRewind(cache, length));
  }

  /**
   * Takes back all tokens but the first `length`.
   *
   * @throws ShapeError where `canRewind` is false; UsageError while a call has the cache
   */
  rewind(length: number): void {
    checkWhole('length', length, 0);
    this.act((addon, cache) => addon.rewindCache(cache, length));
  }

  /** Takes back all tokens. Throws UsageError while a call has the cache. */
  clear(): void {
    this.act((addon, cache) => addon.emptyCache(cache));
  }

  /** A cache with the same tokens, in memory of its own. Throws UsageError while a call has this one. */
  copy(): SequenceCache {
    return new SequenceCache(
      this.#options,
      this.act((addon, cache) => addon.copyCache(cache)),
    );
  }

  /**
   * What the next tokens see, in the storage's form, for `load` of a cache with the same layers, batch
   * and storage. Throws UsageError while a call has the cache.
   */
  async state(): Promise<Map<string, MxArray>> {
    try {
      const { names, ids } = await this.act((addon, cache) => addon.cacheState(cache));
      return new Map(names.map((name, i) => [name, adopt(new MxArray(ids[i]))]));
    } catch (error) {
      throw typedError(error);
    }
  }

  /**
   * Replaces all tokens by those of a state.
   *
   * @throws ShapeError for what isn't the state of such a cache, which stays as it is then
   */
  async load(state: ReadonlyMap<string, MxArray>): Promise<void> {
    const arrays = [...state.values()];
    const ids = Float64Array.from(arrays, (array) => array.idFor('load()'));
    await native().evaluate(ids);
    this.act((addon, cache) => addon.loadCache(cache, [...state.keys()], ids));
  }
}

/**
 * Keys and values of at most 63 sequences, which may share tokens, in cells of one pool. Windows free no
 * cells. A call's batch are tokens, each with its position and its sequence.
 */
export class CellCache extends KvCache {
  readonly cells: number;

  /** @throws UsageError for options that can't be; MemoryError */
  constructor(options: CellCacheOptions) {
    checkNames('CellCache', options, ['layers', 'cells', 'storage']);
    const { cells } = options;
    checkWhole('cells', cells, 1);
    const layers = layerNumbers(options.layers);
    const storage = checkedStorage(options.storage);
    super(made(() => native().createCellCache(layers, storage, cells)));
    this.cells = cells;
  }

  get freeCells(): number {
    return this.act((addon, cache) => addon.freeCells(cache));
  }

  /**
   * A new sequence without tokens.
   *
   * @throws UsageError for a 64th, and, as all that changes sequences, while a call has the cache
   */
  open(): number {
    return this.act((addon, cache) => addon.openCells(cache));
  }

  /** The position of a sequence's next token. Throws UsageError for what isn't an open sequence. */
  length(sequence: number): number {
    checkWhole('sequence', sequence, 0);
    return this.act((addon, cache) => addon.cellsLength(cache, sequence));
  }

  /** A new sequence that shares another's first tokens, all of them unless `length` is given. */
  fork(sequence: number, length: number = this.length(sequence)): number {
    checkWhole('sequence', sequence, 0);
    checkWhole('length', length, 0);
    return this.act((addon, cache) => addon.forkCells(cache, sequence, length));
  }

  /** Takes the tokens at positions from `from` up to `to` from a sequence; those that follow keep theirs. */
  remove(sequence: number, from = 0, to: number = this.length(sequence)): void {
    checkWhole('sequence', sequence, 0);
    checkWhole('from', from, 0);
    checkWhole('to', to, from);
    this.act((addon, cache) => addon.removeCells(cache, sequence, from, to));
  }

  /** Ends a sequence. Its number may be that of another one later. */
  close(sequence: number): void {
    checkWhole('sequence', sequence, 0);
    this.act((addon, cache) => addon.closeCells(cache, sequence));
  }
}

function made(make: () => CacheHandle): CacheHandle {
  try {
    return make();
  } catch (error) {
    throw typedError(error);
  }
}

function checkNames(name: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null) {
    throw new UsageError(`The options of ${name} must be an object, not ${shown(options)}.`);
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new UsageError(`${name} has no option ${unknown}: ${nameHint(unknown, known)}`);
}

function checkWhole(name: string, value: unknown, least: number): void {
  const isWhole = Number.isInteger(value) && Number(value) >= least && Number(value) < 2 ** 31;
  if (isWhole) return;
  throw new UsageError(
    `${name} has to be a whole number of at least ${least}, not ${shown(value)}.`,
  );
}

function checkedStorage(storage: KvStorage = 'float32'): KvStorage {
  if (kvStorages.includes(storage)) return storage;
  throw new UsageError(`storage has to be ${kvStorages.join(', ')}, not ${shown(storage)}.`);
}

function layerNumbers(layers: readonly KvLayer[]): Int32Array {
  if (!Array.isArray(layers) || layers.length === 0) {
    throw new UsageError('layers has to be a list of at least one layer.');
  }
  return Int32Array.from(
    layers.flatMap(({ kvHeads, headSize, valueSize = headSize, window = 0 }: KvLayer, i) => {
      checkWhole(`layers[${i}].kvHeads`, kvHeads, 1);
      checkWhole(`layers[${i}].headSize`, headSize, 1);
      checkWhole(`layers[${i}].valueSize`, valueSize, 1);
      checkWhole(`layers[${i}].window`, window, 0);
      return [kvHeads, headSize, valueSize, window];
    }),
  );
}
