/** Files whose tensors become arrays straight from the page cache. */
import { MxArray } from './array.js';
import { shown, typedError } from './call.js';
import { dtypeNumber, type Dtype } from './dtype.js';
import { CheckpointError, DtypeError, UsageError } from './errors.js';
import { native, type MappedFileHandle } from './native.js';
import { adopt, tracking } from './scope.js';

export class MappedFile {
  readonly path: string;
  readonly #handle: MappedFileHandle;

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

  /**
   * The tensor that starts at a byte of the file, little-endian and row-major.
   *
   * @throws CheckpointError when it would reach past the file's end
   */
  array(byteOffset: number, shape: readonly number[], dtype: Dtype): MxArray {
    const number = dtypeNumber(dtype);
    if (number === undefined) throw new DtypeError(`There is no dtype ${shown(dtype)}.`);
    try {
      return adopt(
        new MxArray(native().mappedArray(this.#handle, byteOffset, number, shape, tracking())),
      );
    } catch (error) {
      const context = `${this.path}, ${dtype}[${shape.join(', ')}] at byte ${byteOffset}`;
      throw new CheckpointError((typedError(error, context) as Error).message, { cause: error });
    }
  }
}

/** Maps a file, to take tensors from it; see `MappedFile`. */
export function mapFile(path: string): MappedFile {
  return new MappedFile(path);
}
