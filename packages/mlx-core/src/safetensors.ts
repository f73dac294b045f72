/**
 * The safetensors format: u64 header length, JSON header, then the tensors' bytes.
 * Source: the format description in the README of huggingface/safetensors.
 */
import { isUtf8 } from 'node:buffer';
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { MxArray } from './array.js';
import { shown, typedError } from './call.js';
import { dtypeNames, itemSizes, type Dtype } from './dtype.js';
import {
  CheckpointError,
  DtypeError,
  printable,
  quoted,
  ShapeError,
  systemReason,
  UsageError,
} from './errors.js';
import { mapFile } from './mapped-file.js';
import { checkRegularFile } from './regular-file.js';
import { native } from './native.js';
import { recorder } from './recording.js';
import { writeWholeFileSync } from './whole-file.js';

const names: Readonly<Record<Dtype, string>> = {
  bool_: 'BOOL',
  uint8: 'U8',
  uint16: 'U16',
  uint32: 'U32',
  uint64: 'U64',
  int8: 'I8',
  int16: 'I16',
  int32: 'I32',
  int64: 'I64',
  float16: 'F16',
  float32: 'F32',
  float64: 'F64',
  bfloat16: 'BF16',
  complex64: 'C64',
};
const dtypes = new Map<unknown, Dtype>(dtypeNames.map((dtype) => [names[dtype], dtype]));
const metadataKey = '__metadata__';

export interface Safetensors {
  tensors: Map<string, MxArray>;
  metadata: Record<string, string>;
}

interface Entry {
  name: string;
  dtype: Dtype;
  shape: number[];
  start: number;
  end: number;
}

// The limit of the reference implementation.
const largestHeader = 100_000_000;

// As many as NumPy's arrays can have; MLX sets no limit.
const mostAxes = 64;

function readHeader(path: string): { header: unknown; dataAt: number; size: number } {
  checkRegularFile(path);
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const prefix = Buffer.alloc(8);
    if (size < 8 || readSync(file, prefix, 0, 8, 0) < 8) {
      throw new CheckpointError(`${path} is too short to be a safetensors file (${size} bytes).`);
    }
    const length = Number(prefix.readBigUInt64LE());
    if (length > largestHeader || length > size - 8) {
      throw new CheckpointError(
        `${path} is not a safetensors file, or cut off: its header would be ${length} bytes long, the file has ${size}.`,
      );
    }
    const text = Buffer.alloc(length);
    const got = readSync(file, text, 0, length, 8);
    if (got < length) throw new CheckpointError(`${path} changed while it was read.`);
    if (!isUtf8(text)) throw new CheckpointError(`${path}: its header is not UTF-8.`);
    return { header: JSON.parse(text.toString('utf8')) as unknown, dataAt: 8 + length, size };
  } catch (error) {
    if (error instanceof SyntaxError) {
      throw new CheckpointError(`${path}: its header is not JSON (${printable(error.message)}).`);
    }
    throw error;
  } finally {
    closeSync(file);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Not a Map, say, whose content is none of its properties and would be lost. */
function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (!isObject(value)) return false;
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function readEntry(path: string, name: string, entry: unknown, dataBytes: number): Entry {
  const bad = (why: string): CheckpointError =>
    new CheckpointError(`${path}: tensor ${quoted(name)} ${why}.`);
  if (!isObject(entry)) throw bad('has no description');
  const { dtype: dtypeName, shape, data_offsets: offsets } = entry;
  const dtype = dtypes.get(dtypeName);
  if (!dtype) {
    const known = Object.values(names).join(', ');
    throw bad(`has the dtype ${quoted(dtypeName)}; known are ${known}`);
  }
  if (!isSizes(shape)) throw bad('has no valid shape');
  if (shape.length > mostAxes) throw bad(`has ${shape.length} axes; ${mostAxes} are read`);
  if (!isSizes(offsets) || offsets.length !== 2) throw bad('has no valid data_offsets');
  const [start, end] = offsets;
  if (start > end || end > dataBytes) {
    throw bad(`lies at bytes ${start} to ${end}, but there are ${dataBytes}: is the file cut off?`);
  }
  const needed = shape.reduce((product, size) => product * size, itemSizes[dtype]);
  if (end - start !== needed) {
    const sizes = printable(shape.join(', '));
    throw bad(`has ${end - start} bytes, but ${dtype}[${sizes}] needs ${needed}`);
  }
  return { name, dtype, shape, start, end };
}

/** Every byte belongs to one tensor. A file with holes is damaged, or hides something. */
function checkTiling(path: string, entries: readonly Entry[], dataBytes: number): void {
  let next = 0;
  for (const { name, start, end } of entries.toSorted(
    (a, b) => a.start - b.start || a.end - b.end,
  )) {
    if (start !== next) {
      throw new CheckpointError(
        `${path}: tensor ${quoted(name)} starts at byte ${start} of the data, not at ${next}, where the one before it ends.`,
      );
    }
    next = end;
  }
  if (next !== dataBytes) {
    throw new CheckpointError(
      `${path} has ${dataBytes} bytes of data; its tensors end at ${next}.`,
    );
  }
}

function readMetadata(path: string, header: Record<string, unknown>): Record<string, string> {
  const metadata = header[metadataKey] ?? {};
  if (!isObject(metadata) || !Object.values(metadata).every((each) => typeof each === 'string')) {
    throw new CheckpointError(`${path}: its ${metadataKey} has to be an object of texts.`);
  }
  return metadata as Record<string, string>;
}

/**
 * Reads all tensors of a file. As strict as the reference implementation: tensors lie one behind
 * the other without holes or overlaps, metadata are texts.
 *
 * @throws CheckpointError when the file can't be read or isn't what it says
 */
export function loadSafetensors(path: string): Safetensors {
  let opened: ReturnType<typeof readHeader>;
  try {
    opened = readHeader(path);
  } catch (error) {
    if (error instanceof CheckpointError) throw error;
    throw new CheckpointError(`${path} can't be read: ${systemReason(error)}.`, {
      cause: error,
    });
  }
  const { header, dataAt, size } = opened;
  if (!isObject(header)) throw new CheckpointError(`${path}: its header is not a JSON object.`);
  const entries = Object.entries(header)
    .filter(([name]) => name !== metadataKey)
    .map(([name, entry]) => readEntry(path, name, entry, size - dataAt));
  checkTiling(path, entries, size - dataAt);
  const metadata = readMetadata(path, header);
  using file = mapFile(path);
  const tensors = new Map(
    entries.map(({ name, dtype, shape, start }) => [
      name,
      file.array(dataAt + start, shape, dtype),
    ]),
  );
  return { tensors, metadata };
}

function headerOf(
  tensors: readonly (readonly [string, MxArray])[],
  metadata: Record<string, string>,
): Buffer {
  // Without a prototype any name is a key like others, also __proto__.
  const header = Object.create(null) as Record<string, unknown>;
  if (Object.keys(metadata).length > 0) header[metadataKey] = metadata;
  let offset = 0;
  for (const [name, tensor] of tensors) {
    const end = offset + tensor.nbytes;
    header[name] = {
      dtype: names[tensor.dtype],
      shape: tensor.shape,
      data_offsets: [offset, end],
    };
    offset = end;
  }
  const json = Buffer.from(JSON.stringify(header));
  // The data starts at a multiple of 64 bytes, so that a mapped file has aligned tensors.
  const padding = (64 - ((8 + json.length) % 64)) % 64;
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(BigInt(json.length + padding));
  return Buffer.concat([prefix, json, Buffer.alloc(padding, ' ')]);
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done);
}

function checkTensors(path: string, tensors: readonly (readonly [unknown, unknown])[]): void {
  for (const [name, tensor] of tensors) {
    // As text a Map's keys 1 and '1' would be the same.
    if (typeof name !== 'string') {
      throw new UsageError(`${path}: tensors are named by texts, not ${shown(name)}.`);
    }
    if (name === metadataKey) throw new UsageError(`${path}: no tensor can be named ${name}.`);
    if (!(tensor instanceof MxArray)) {
      throw new DtypeError(`${path}: ${name} has to be an MxArray, not ${shown(tensor)}.`);
    }
    recorder()?.reading('saveSafetensors()', tensor);
    tensor.idFor(`${path}: ${name}`);
    const axes = tensor.shape.length;
    if (axes > mostAxes) {
      throw new ShapeError(`${path}: ${name} has ${axes} axes; ${mostAxes} can be read again.`);
    }
  }
}

/** JSON would write what isn't text, and neither we nor the reference implementation could read it. */
function checkMetadata(path: string, metadata: unknown): void {
  if (!isPlainObject(metadata)) {
    throw new UsageError(
      `${path}: metadata have to be an object of texts, not ${shown(metadata)}.`,
    );
  }
  for (const [key, value] of Object.entries(metadata)) {
    if (typeof value === 'string') continue;
    throw new UsageError(`${path}: metadata ${quoted(key)} has to be a text, not ${shown(value)}.`);
  }
}

/**
 * Writes tensors to a file, which appears under its name only when it is complete. Makes missing
 * folders.
 *
 * @throws FileError when the file can't be written, UsageError for names or metadata that aren't texts,
 *   ShapeError for more than 64 axes
 */
export function saveSafetensors(
  path: string,
  tensors: ReadonlyMap<string, MxArray> | Readonly<Record<string, MxArray>>,
  metadata: Record<string, string> = {},
): void {
  if (!(tensors instanceof Map) && !isPlainObject(tensors)) {
    throw new UsageError(`${path}: tensors have to be a map or an object, not ${shown(tensors)}.`);
  }
  const all =
    tensors instanceof Map
      ? [...(tensors as ReadonlyMap<string, MxArray>)]
      : Object.entries(tensors);
  checkTensors(path, all);
  checkMetadata(path, metadata);
  try {
    writeWholeFileSync(path, (file) => {
      writeAll(file, headerOf(all, metadata));
      for (const [name, tensor] of all) {
        writeAll(file, new Uint8Array(native().bytes(tensor.idFor(name))));
      }
    });
  } catch (error) {
    throw typedError(error, `writing ${path}`);
  }
}
