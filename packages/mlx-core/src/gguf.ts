/** GGUF files, one or several that belong together. They are parsed in native/io/gguf.cpp. */
import { basename, dirname, join } from 'node:path';
import type { MxArray } from './array.js';
import { shown } from './call.js';
import type { Dtype } from './dtype.js';
import { CheckpointError, printable, quoted, UsageError } from './errors.js';
import { mapFile, type MappedFile } from './mapped-file.js';
import { native, type GgufTensorEntry, type GgufValue } from './native.js';

export interface GgufTensor {
  /** ggml's name of the element type: Q4_K, F32, I32 … */
  format: string;
  /** Row-major sizes in weights: the reverse of the file's order. */
  shape: readonly number[];
  /** The tensor itself; where `format` is in blocks, uint8 with rows of bytes, for `blockDequantize`. */
  array: MxArray;
}

export interface Gguf {
  metadata: Map<string, GgufValue>;
  tensors: Map<string, GgufTensor>;
}

interface Part {
  path: string;
  file: MappedFile;
  metadata: Map<string, GgufValue>;
  entries: readonly GgufTensorEntry[];
}

const usable = 'F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K';

/** Texts out of the file are escaped already, but for what only Unicode's tables tell. */
const longestMessage = 400;

function readPart(path: string): Part {
  const file = mapFile(path);
  try {
    const { metadata, tensors } = native().readGguf(file.handle);
    return { path, file, metadata: asMap(path, metadata), entries: tensors };
  } catch (error) {
    file.dispose();
    if (error instanceof CheckpointError) throw error;
    const reason = printable((error as Error).message, longestMessage);
    throw new CheckpointError(`${path}: ${reason}.`, { cause: error });
  }
}

function asMap(path: string, keysAndValues: readonly unknown[]): Map<string, GgufValue> {
  const map = new Map<string, GgufValue>();
  for (let i = 0; i < keysAndValues.length; i += 2) {
    const key = keysAndValues[i] as string;
    if (map.has(key)) throw new CheckpointError(`${path}: metadata ${quoted(key)} come twice.`);
    map.set(key, keysAndValues[i + 1] as GgufValue);
  }
  return map;
}

const keys = { count: 'split.count', number: 'split.no', tensors: 'split.tensors.count' };

/** How many parts there are, and which one this is, from 0. */
function placeOf({ path, metadata }: Part): { count: number; number: number } {
  const count = metadata.get(keys.count) ?? 1;
  const number = metadata.get(keys.number) ?? 0;
  const isPlace = Number.isInteger(count) && Number.isInteger(number) && number < count;
  if (!isPlace || Number(count) > 65535 || Number(number) < 0) {
    const [shownNumber, shownCount] = [quoted(number), quoted(count)];
    throw new CheckpointError(`${path} can't be part ${shownNumber} (from 0) of ${shownCount}.`);
  }
  return { count: Number(count), number: Number(number) };
}

function partPath(path: string, number: number, count: number): string {
  const digits = (value: number): string => String(value).padStart(5, '0');
  const tail = `-${digits(number + 1)}-of-${digits(count)}.gguf`;
  const name = /^(.*)-\d{5}-of-\d{5}\.gguf$/s.exec(basename(path))?.[1];
  if (name === undefined) {
    throw new CheckpointError(
      `${path} is one of ${count} files, which are found by their names: NAME${tail} and so on.`,
    );
  }
  return join(dirname(path), name + tail);
}

function otherPart(path: string, number: number, count: number): Part {
  const part = readPart(partPath(path, number, count));
  const place = placeOf(part);
  if (place.count === count && place.number === number) return part;
  part.file.dispose();
  const found = `part ${place.number + 1} of ${place.count}`;
  throw new CheckpointError(
    `${part.path} is ${found} by its metadata, not part ${number + 1} of ${count}.`,
  );
}

/** Adds all parts, in order, to those that the caller disposes. */
function readParts(path: string, parts: Part[]): void {
  const given = readPart(path);
  parts.push(given);
  const { count, number } = placeOf(given);
  if (count === 1) return;
  if (partPath(path, number, count) !== join(dirname(path), basename(path))) {
    const right = basename(partPath(path, number, count));
    throw new CheckpointError(`${path} is part ${number + 1} of ${count}: it has to be ${right}.`);
  }
  for (let i = 0; i < count; i++) if (i !== number) parts.push(otherPart(path, i, count));
  parts.splice(number, 0, ...parts.splice(0, 1));
  const total = parts.reduce((sum, { entries }) => sum + entries.length, 0);
  const announced = given.metadata.get(keys.tensors);
  if (announced !== undefined && Number(announced) !== total) {
    throw new CheckpointError(
      `${path}: all parts together have ${total} tensors, not ${quoted(announced)}.`,
    );
  }
}

type Select = (name: string, tensor: Omit<GgufTensor, 'array'>) => boolean;

type Usable = GgufTensorEntry & { dtype: Dtype; start: number };

function isUsable(entry: GgufTensorEntry): entry is Usable {
  return entry.dtype !== undefined && entry.start !== undefined;
}

/** The tensors to take, all checked before the first one is made. */
function selected(parts: readonly Part[], select: Select | undefined): [Part, Usable][] {
  const names = new Set<string>();
  const chosen: [Part, Usable][] = [];
  for (const part of parts) {
    for (const entry of part.entries) {
      const { name, format, shape } = entry;
      const tensor = `${part.path}: tensor ${quoted(name)}`;
      if (names.has(name)) throw new CheckpointError(`${tensor} comes twice.`);
      names.add(name);
      if (select && !select(name, { format, shape })) continue;
      if (!isUsable(entry)) {
        throw new CheckpointError(
          `${tensor} is of type ${format}, which isn't supported. Supported are ${usable} and plain numbers: take a file such as Q4_K_M, Q5_K_M, Q6_K or Q8_0.`,
        );
      }
      chosen.push([part, entry]);
    }
  }
  return chosen;
}

function tensorOf({ file }: Part, { format, shape, dtype, start, rowBytes }: Usable): GgufTensor {
  const stored = rowBytes === undefined ? shape : [...shape.slice(0, -1), rowBytes];
  return { format, shape, array: file.array(start, stored, dtype) };
}

/**
 * Reads a GGUF file, version 2 or 3; of a model in several files (`…-00001-of-00003.gguf`) all of them,
 * whichever is named. On the CPU the tensors lie in the mapped files; see `mapFile`. With `select`
 * only the tensors for which it returns true are taken, so that a tensor that isn't needed may be of a
 * type that isn't supported.
 *
 * Metadata: lists of numbers are typed arrays; an integer of 64 bits is a number where that is exact,
 * else a BigInt; in texts, what is not UTF-8 becomes U+FFFD. Of several files, the first one's.
 *
 * @throws CheckpointError when a file can't be read, isn't what it says, or has a selected tensor of a
 *   type that isn't supported
 */
export function loadGguf(path: string, select?: Select): Gguf {
  if (select !== undefined && typeof select !== 'function') {
    throw new UsageError(
      `loadGguf(): select has to be a function, (name, { format, shape }) => boolean, not ${shown(select)}.`,
    );
  }
  const parts: Part[] = [];
  try {
    readParts(path, parts);
    const chosen = selected(parts, select);
    const tensors = new Map(
      chosen.map(([part, entry]) => [entry.name, tensorOf(part, entry)] as const),
    );
    return { metadata: parts[0].metadata, tensors };
  } finally {
    for (const { file } of parts) file.dispose();
  }
}
