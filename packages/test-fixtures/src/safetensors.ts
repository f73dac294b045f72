import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';

/**
 * A small reader of the safetensors format, written apart from the native one so that tests can hold
 * the two against each other. The whole file is read into memory: fixtures are small.
 *
 * Format: 8 bytes little-endian length of the header, the header as JSON, then the tensors' bytes.
 */

/** dtypes under the names that mlx-core uses. */
export type FixtureDtype =
  | 'float64'
  | 'float32'
  | 'float16'
  | 'bfloat16'
  | 'int64'
  | 'int32'
  | 'int16'
  | 'int8'
  | 'uint64'
  | 'uint32'
  | 'uint16'
  | 'uint8'
  | 'bool_';

export type FixtureData =
  | Float64Array
  | Float32Array
  | BigInt64Array
  | Int32Array
  | Int16Array
  | Int8Array
  | BigUint64Array
  | Uint32Array
  | Uint16Array
  | Uint8Array;

export interface FixtureTensor {
  readonly dtype: FixtureDtype;
  readonly shape: readonly number[];
  /** Row-major values; float16 and bfloat16 are widened to float32, bool is 0 or 1. */
  readonly data: FixtureData;
}

/** A file that is no valid safetensors file, or that lacks what a test asks of it. */
export class FixtureError extends Error {
  override readonly name = 'FixtureError';
}

interface StoredDtype {
  readonly name: FixtureDtype;
  readonly bytes: number;
  read(buffer: ArrayBuffer): FixtureData;
}

const STORED_DTYPES: Readonly<Record<string, StoredDtype>> = {
  F64: { name: 'float64', bytes: 8, read: (buffer) => new Float64Array(buffer) },
  F32: { name: 'float32', bytes: 4, read: (buffer) => new Float32Array(buffer) },
  F16: { name: 'float16', bytes: 2, read: (buffer) => widenFloat16(new Uint16Array(buffer)) },
  BF16: { name: 'bfloat16', bytes: 2, read: (buffer) => widenBfloat16(new Uint16Array(buffer)) },
  I64: { name: 'int64', bytes: 8, read: (buffer) => new BigInt64Array(buffer) },
  I32: { name: 'int32', bytes: 4, read: (buffer) => new Int32Array(buffer) },
  I16: { name: 'int16', bytes: 2, read: (buffer) => new Int16Array(buffer) },
  I8: { name: 'int8', bytes: 1, read: (buffer) => new Int8Array(buffer) },
  U64: { name: 'uint64', bytes: 8, read: (buffer) => new BigUint64Array(buffer) },
  U32: { name: 'uint32', bytes: 4, read: (buffer) => new Uint32Array(buffer) },
  U16: { name: 'uint16', bytes: 2, read: (buffer) => new Uint16Array(buffer) },
  U8: { name: 'uint8', bytes: 1, read: (buffer) => new Uint8Array(buffer) },
  BOOL: { name: 'bool_', bytes: 1, read: (buffer) => new Uint8Array(buffer) },
};

/** The tensors and metadata of one file, with accessors that fail with the names that would be right. */
export class SafetensorsFile {
  readonly path: string;
  readonly tensors: ReadonlyMap<string, FixtureTensor>;
  readonly metadata: Readonly<Record<string, string>>;

  constructor(
    path: string,
    tensors: ReadonlyMap<string, FixtureTensor>,
    metadata: Readonly<Record<string, string>>,
  ) {
    this.path = path;
    this.tensors = tensors;
    this.metadata = metadata;
  }

  /** @throws FixtureError where the file has no tensor of that name. */
  tensor(name: string): FixtureTensor {
    const tensor = this.tensors.get(name);
    if (!tensor) {
      const names = [...this.tensors.keys()].filter((key) => !key.startsWith('w.')).join(', ');
      throw new FixtureError(
        `${this.path} has no tensor '${name}'; besides weights it has: ${names}`,
      );
    }
    return tensor;
  }

  /** Values of a floating-point tensor. */
  floats(name: string): Float32Array {
    const { data, dtype } = this.tensor(name);
    if (!(data instanceof Float32Array)) {
      throw new FixtureError(`Tensor '${name}' is ${dtype}, not float32, float16 or bfloat16`);
    }
    return data;
  }

  /** Values of an integer or bool tensor, as numbers. */
  integers(name: string): number[] {
    const { data, dtype } = this.tensor(name);
    if (data instanceof Float32Array || data instanceof Float64Array) {
      throw new FixtureError(`Tensor '${name}' is ${dtype}, not an integer type`);
    }
    return Array.from(data as Iterable<number | bigint>, Number);
  }

  /** The weights, under their checkpoint names (stored behind the prefix `w.`). */
  weights(): Map<string, FixtureTensor> {
    const weights = new Map<string, FixtureTensor>();
    for (const [name, tensor] of this.tensors) {
      if (name.startsWith('w.')) weights.set(name.slice(2), tensor);
    }
    return weights;
  }

  /** The model's config.json, kept in the metadata. */
  config(): Record<string, unknown> {
    const config = this.metadata.config;
    if (config === undefined) throw new FixtureError(`${this.path} has no config in its metadata`);
    return JSON.parse(config) as Record<string, unknown>;
  }
}

/**
 * Reads and validates a safetensors file.
 *
 * @throws FixtureError for a truncated file, a header that is no JSON object, an unknown dtype, and
 *   for offsets that leave the file, overlap, leave holes or don't fit the shape.
 */
export function readSafetensors(path: string): SafetensorsFile {
  const file = readFileSync(path);
  const { header, dataStart } = readHeader(path, file);
  const { __metadata__: metadata, ...entries } = header;
  const stored = Object.entries(entries).map(([name, entry]) => storedTensor(path, name, entry));
  checkTiling(path, stored, file.length - dataStart);

  const tensors = new Map<string, FixtureTensor>();
  for (const { name, dtype, shape, begin, end } of stored) {
    // A copy, since a typed array must start at a multiple of its element size.
    const bytes = new Uint8Array(file.subarray(dataStart + begin, dataStart + end)).buffer;
    tensors.set(name, { dtype: dtype.name, shape, data: dtype.read(bytes) });
  }
  return new SafetensorsFile(path, tensors, readMetadata(path, metadata ?? {}));
}

function readHeader(path: string, file: Buffer) {
  if (file.length < 8) throw new FixtureError(`${path} is shorter than a safetensors header`);
  const length = Number(file.readBigUInt64LE(0));
  if (length > file.length - 8) {
    throw new FixtureError(`${path} announces a header of ${length} bytes but has ${file.length}`);
  }
  if (!isUtf8(file.subarray(8, 8 + length))) {
    throw new FixtureError(`The header of ${path} is not UTF-8`);
  }
  let header: unknown;
  try {
    header = JSON.parse(file.toString('utf8', 8, 8 + length));
  } catch (cause) {
    throw new FixtureError(`The header of ${path} is not JSON`, { cause });
  }
  if (!isRecord(header)) throw new FixtureError(`The header of ${path} is not a JSON object`);
  return { header, dataStart: 8 + length };
}

interface StoredTensor {
  readonly name: string;
  readonly dtype: StoredDtype;
  readonly shape: number[];
  readonly begin: number;
  readonly end: number;
}

function storedTensor(path: string, name: string, entry: unknown): StoredTensor {
  const where = `Tensor '${name}' of ${path}`;
  if (!isRecord(entry)) throw new FixtureError(`${where} has no description`);
  const { dtype: dtypeName, shape, data_offsets: offsets } = entry;
  const dtype = typeof dtypeName === 'string' ? STORED_DTYPES[dtypeName] : undefined;
  if (!dtype) {
    const found = typeof dtypeName === 'string' ? `"${dtypeName}"` : `a ${typeof dtypeName}`;
    throw new FixtureError(`${where} has the unknown dtype ${found}`);
  }
  if (!isSizes(shape)) throw new FixtureError(`${where} has no valid shape`);
  if (!isSizes(offsets) || offsets.length !== 2) {
    throw new FixtureError(`${where} has no valid data_offsets`);
  }
  const [begin, end] = offsets as [number, number];
  const bytes = shape.reduce((product, size) => product * size, dtype.bytes);
  if (end - begin !== bytes) {
    throw new FixtureError(
      `${where} has ${end - begin} bytes, but ${dtype.name} [${shape}] needs ${bytes}`,
    );
  }
  return { name, dtype, shape, begin, end };
}

/** The format allows neither overlaps nor holes: anything else is a damaged file. */
function checkTiling(path: string, stored: readonly StoredTensor[], length: number) {
  let next = 0;
  for (const { name, begin, end } of stored.toSorted(
    (a, b) => a.begin - b.begin || a.end - b.end,
  )) {
    if (begin !== next) {
      throw new FixtureError(`Tensor '${name}' of ${path} starts at ${begin}, expected ${next}`);
    }
    next = end;
  }
  if (next !== length) {
    throw new FixtureError(`${path} has ${length} bytes of tensors, its header describes ${next}`);
  }
}

function readMetadata(path: string, metadata: unknown): Record<string, string> {
  const isText = isRecord(metadata) && Object.values(metadata).every((v) => typeof v === 'string');
  if (!isText) throw new FixtureError(`The metadata of ${path} is not a map of strings`);
  return metadata as Record<string, string>;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function widenFloat16(bits: Uint16Array): Float32Array {
  return Float32Array.from(bits, float16);
}

/** IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
function float16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

/** bfloat16 is the upper half of a float32. */
function widenBfloat16(bits: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(bits, (value) => value << 16).buffer);
}
