/**
 * CTranslate2's model.bin: named variables one after the other, then aliases. Little-endian.
 * Source: python/ctranslate2/specs/model_spec.py (Model.save) of OpenNMT/CTranslate2, versions 6.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import {
  checkRegularFile,
  CheckpointError,
  mx,
  quoted,
  systemReason,
  type Dtype,
  type MxArray,
} from '@mlx-runners/mlx-core';

// By their codes, with the bytes of an element.
const dtypes: readonly (readonly [Dtype, number])[] = [
  ['float32', 4],
  ['int8', 1],
  ['int16', 2],
  ['int32', 4],
  ['float16', 2],
  ['bfloat16', 2],
];
const newestVersion = 6;
// Names and shapes are short; a file that claims otherwise is no model.
const longestString = 4096;

interface Variable {
  name: string;
  shape: number[];
  dtype: Dtype;
  offset: number;
}

function unreadable(path: string, cause: unknown): CheckpointError {
  return new CheckpointError(`${path} can't be read: ${systemReason(cause)}.`, { cause });
}

/** Reads the small parts of a large file in order, without reading what lies between. */
class Cursor {
  readonly #file: number;
  readonly #path: string;
  readonly #size: number;
  position = 0;

  constructor(path: string) {
    this.#path = path;
    try {
      checkRegularFile(path);
      this.#file = openSync(path, 'r');
    } catch (error) {
      if (error instanceof CheckpointError) throw error;
      throw unreadable(path, error);
    }
    this.#size = fstatSync(this.#file).size;
  }

  close(): void {
    closeSync(this.#file);
  }

  fail(why: string): CheckpointError {
    return new CheckpointError(`${this.#path} is not a CTranslate2 model, or cut off: ${why}.`);
  }

  #take(bytes: number): Buffer {
    const buffer = Buffer.alloc(bytes);
    if (readSync(this.#file, buffer, 0, bytes, this.position) < bytes) {
      throw this.fail(`it ends at byte ${this.#size} where more is announced`);
    }
    this.position += bytes;
    return buffer;
  }

  skip(bytes: number): void {
    if (bytes > this.#size - this.position) {
      throw this.fail(`${bytes} bytes are announced at ${this.position}, it has ${this.#size}`);
    }
    this.position += bytes;
  }

  u8(): number {
    return this.#take(1).readUInt8();
  }

  u32(): number {
    return this.#take(4).readUInt32LE();
  }

  /** A u16 length that counts the closing NUL, then the bytes. */
  string(): string {
    const length = this.#take(2).readUInt16LE();
    if (length === 0 || length > longestString) throw this.fail(`a name of ${length} bytes`);
    return this.#take(length).subarray(0, -1).toString('utf8');
  }

  get atEnd(): boolean {
    return this.position === this.#size;
  }
}

function readVariable(cursor: Cursor): Variable {
  const name = cursor.string();
  const rank = cursor.u8();
  if (rank > 8) throw cursor.fail(`${quoted(name)} has ${rank} axes`);
  const shape = Array.from({ length: rank }, () => cursor.u32());
  const code = cursor.u8();
  const bytes = cursor.u32();
  const offset = cursor.position;
  cursor.skip(bytes);
  if (code >= dtypes.length) throw cursor.fail(`${quoted(name)} has the unknown dtype ${code}`);
  const [dtype, itemSize] = dtypes[code];
  const needed = shape.reduce((product, size) => product * size, itemSize);
  if (bytes !== needed) {
    const sizes = shape.join(', ');
    throw cursor.fail(`${quoted(name)} has ${bytes} bytes, ${dtype}[${sizes}] needs ${needed}`);
  }
  return { name, shape, dtype, offset };
}

function readIndex(cursor: Cursor): Variable[] {
  const version = cursor.u32();
  if (version < 5 || version > newestVersion) {
    throw cursor.fail(`version ${version}; versions 5 and 6 are known`);
  }
  cursor.string(); // name of the specification
  cursor.u32(); // its revision
  const count = cursor.u32();
  if (count > 1_000_000) throw cursor.fail(`${count} variables`);
  const variables = new Map<string, Variable>();
  for (let i = 0; i < count; i++) {
    const variable = readVariable(cursor);
    if (variables.has(variable.name)) throw cursor.fail(`${quoted(variable.name)} comes twice`);
    variables.set(variable.name, variable);
  }
  const aliasCount = cursor.u32();
  if (aliasCount > count) throw cursor.fail(`${aliasCount} aliases of ${count} variables`);
  for (let i = 0; i < aliasCount; i++) {
    const [alias, name] = [cursor.string(), cursor.string()];
    if (!variables.has(name)) throw cursor.fail(`${quoted(alias)} stands for nothing`);
  }
  if (!cursor.atEnd) throw cursor.fail('bytes are left over after the aliases');
  return [...variables.values()];
}

/**
 * Reads all variables of a model.bin by their CTranslate2 names; aliases are left out, since each
 * names a variable that is there already. On the CPU they lie in the file, which stays mapped while
 * they live.
 *
 * @throws CheckpointError when the file can't be read or isn't such a model
 */
export function readCTranslate2(path: string): Map<string, MxArray> {
  const cursor = new Cursor(path);
  let variables: Variable[];
  try {
    variables = readIndex(cursor);
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    throw unreadable(path, error);
  } finally {
    cursor.close();
  }
  using file = mx.mapFile(path);
  return new Map(
    variables.map(({ name, shape, dtype, offset }) => [name, file.array(offset, shape, dtype)]),
  );
}
