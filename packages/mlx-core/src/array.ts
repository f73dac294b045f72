/** MxArray: a handle on an array of MLX, which computes it when its values are first needed. */
import { describe, typedError } from './call.js';
import { dtypeNames, itemSizes, viewOf, type Dtype, type TypedArray } from './dtype.js';
import { DisposedError, ShapeError, UsageError } from './errors.js';
import { withGarbageCollected } from './memory.js';
import { native } from './native.js';
import { recorder } from './recording.js';
import { disown } from './scope.js';

const disposedId = -1;

/**
 * An n-dimensional array. Made by `mx.array` and the ops of `mx`, all of which are methods here as
 * well when their first argument is an array. Values are immutable and computed lazily.
 */
export class MxArray {
  #id: number;
  #described: { dtype: Dtype; shape: readonly number[] } | undefined;

  /** @internal Arrays come from ops; a handle made by hand names nothing. */
  constructor(id: number) {
    this.#id = id;
  }

  /** The array's number in the addon, for what an error would name. @internal */
  idFor(use: string): number {
    if (this.#id === disposedId) throw new DisposedError(`${use}: this array was disposed.`);
    return this.#id;
  }

  #describe(use: string): { dtype: Dtype; shape: readonly number[] } {
    const id = this.idFor(use);
    if (!this.#described) {
      const { dtype, shape } = describe(id);
      this.#described = { dtype: dtypeNames[dtype], shape: Object.freeze(shape) };
    }
    return this.#described;
  }

  get shape(): readonly number[] {
    return this.#describe('shape').shape;
  }

  get dtype(): Dtype {
    return this.#describe('dtype').dtype;
  }

  get ndim(): number {
    return this.shape.length;
  }

  /** Number of elements. */
  get size(): number {
    return this.shape.reduce((product, size) => product * size, 1);
  }

  get nbytes(): number {
    return this.size * itemSizes[this.dtype];
  }

  get disposed(): boolean {
    return this.#id === disposedId;
  }

  /**
   * Computes the array on a native thread and copies its elements out, in row-major order.
   * float16 and bfloat16 come as Float32Array, int64 as BigInt64Array, booleans as Uint8Array.
   *
   * @throws MemoryError when the values don't fit into memory; ProgramError, at once, inside a trace
   */
  data(): Promise<TypedArray> {
    recorder()?.reading('data()', this);
    return this.#data();
  }

  async #data(): Promise<TypedArray> {
    const { dtype } = this.#describe('data()');
    try {
      return viewOf(dtype, await withGarbageCollected(() => native().read(this.#id)));
    } catch (error) {
      throw typedError(error, 'data()');
    }
  }

  /** As `data()`, but blocks the event loop until the values are there. */
  dataSync(): TypedArray {
    recorder()?.reading('dataSync()', this);
    return this.#dataSync();
  }

  #dataSync(): TypedArray {
    const { dtype } = this.#describe('dataSync()');
    try {
      return viewOf(dtype, native().readSync(this.#id));
    } catch (error) {
      throw typedError(error, 'dataSync()');
    }
  }

  #single(use: string): void {
    this.idFor(use);
    if (this.size !== 1) {
      throw new ShapeError(`${use} needs an array of one element, not ${this.summary()}.`);
    }
  }

  /** The value of an array of one element; 64-bit integers become numbers. */
  item(): Promise<number> {
    recorder()?.reading('item()', this);
    return this.#item();
  }

  async #item(): Promise<number> {
    this.#single('item()');
    return Number((await this.#data())[0]);
  }

  /** As `item()`, but blocks the event loop. */
  itemSync(): number {
    recorder()?.reading('itemSync()', this);
    this.#single('itemSync()');
    return Number(this.#dataSync()[0]);
  }

  /** Frees the array now. Disposing twice is fine; any other use afterwards is a DisposedError. */
  dispose(): void {
    if (this.#id === disposedId) return;
    disown(this);
    native().drop(Float64Array.of(this.forget()));
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Ends the handle and returns the id for the caller to drop. @internal */
  forget(): number {
    const id = this.#id;
    this.#id = disposedId;
    return id;
  }

  /** dtype and shape in short, such as `float32[2, 3]`. */
  summary(): string {
    if (this.disposed) return 'a disposed array';
    return `${this.dtype}[${this.shape.join(', ')}]`;
  }

  toString(): string {
    return `MxArray ${this.summary()}`;
  }

  /** JSON of the handle would silently be `{}`. @throws UsageError always */
  toJSON(): never {
    throw new UsageError(
      `JSON can't hold ${this.toString()}: give it the elements, Array.from(await x.data()).`,
    );
  }

  /** `x + 1` would silently make a text. @throws UsageError unless a text is wanted, as in a template */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.toString();
    throw new UsageError(
      `Operators don't compute with ${this.toString()}: call methods, such as x.add(1), or get ` +
        'the value of one element by await x.item().',
    );
  }

  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString();
  }
}
