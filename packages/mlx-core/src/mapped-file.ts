/** Files mapped into memory, whose tensors become arrays without being copied. */
import { MxArray } from './array.js';
import { checkedDtype, shown, typedError } from './call.js';
import type { Dtype } from './dtype.js';
import { CheckpointError, DisposedError, UsageError } from './errors.js';
import { native, type MappedFileHandle } from './native.js';
import { adopt, tracking } from './scope.js';

/**
 * A file whose bytes are part of the process's memory, shared by all threads that map it. On the CPU
 * its arrays lie in the file itself and keep it mapped while they live, also when the file is removed
 * or replaced meanwhile. It must not be shortened or written to in place: reading what is no longer
 * there ends the process.
 */
export class MappedFile {
  readonly path: string;
  #handle: MappedFileHandle | undefined;

  /** @throws CheckpointError when the file can't be opened */
  constructor(path: string) {
    if (typeof path !== 'string') {
      throw new UsageError(`A file is named by a string, not ${shown(path)}.`);
    }
    this.path = path;
    try {
      this.#handle = native().mapFile(path);
    } catch (error) {
      throw new CheckpointError((error as Error).message, { cause: error });
    }
  }

  /** For readers of formats in the addon. @internal */
  get handle(): MappedFileHandle {
    if (!this.#handle) throw new DisposedError(`${this.path}: this mapped file was disposed.`);
    return this.#handle;
  }

  /**
   * The tensor that starts at a byte of the file, little-endian and row-major.
   *
   * @throws CheckpointError when it would reach past the file's end
   */
  array(byteOffset: number, shape: readonly number[], dtype: Dtype): MxArray {
    const number = checkedDtype(`${this.path}, array()`, dtype);
    const { handle } = this;
    try {
      return adopt(
        new MxArray(native().mappedArray(handle, byteOffset, number, shape, tracking())),
      );
    } catch (error) {
      const context = `${this.path}, ${dtype}[${shape.join(', ')}] at byte ${byteOffset}`;
      throw new CheckpointError((typedError(error, context) as Error).message, { cause: error });
    }
  }

  /** Takes no more arrays from the file. It stays mapped while any that were taken live. */
  dispose(): void {
    if (this.#handle) native().unmapFile(this.#handle);
    this.#handle = undefined;
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** Maps a file, to take tensors from it; see `MappedFile`. */
export function mapFile(path: string): MappedFile {
  return new MappedFile(path);
}
