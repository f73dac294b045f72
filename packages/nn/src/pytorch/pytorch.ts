/**
 * PyTorch's checkpoints, as torch.save has written them since version 1.6: a zip file with a pickle of the
 * object and a file for each storage, which tensors are views of.
 * Source: torch/serialization.py and torch/_utils.py of pytorch/pytorch.
 */
import {
  CheckpointError,
  mx,
  quoted,
  type Dtype,
  type MappedFile,
  type MxArray,
} from '@mlx-runners/mlx-core';
import { withStoredEntries, type StoredEntry, type StoredFile } from './stored-entries.js';
import { Global, PickleError, unpickle, type Globals } from './unpickler.js';

/**
 * What was saved: tensors as arrays, dicts as maps, lists and tuples as arrays; integers that no number can
 * hold as bigint, bytes as Uint8Array.
 */
export type PyTorchValue =
  | MxArray
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PyTorchValue[]
  | Map<PyTorchValue, PyTorchValue>;

/** With the bytes of an element, by the names of the storages in torch. */
const DTYPES: Readonly<Record<string, readonly [dtype: Dtype, bytes: number]>> = {
  DoubleStorage: ['float64', 8],
  FloatStorage: ['float32', 4],
  HalfStorage: ['float16', 2],
  BFloat16Storage: ['bfloat16', 2],
  LongStorage: ['int64', 8],
  IntStorage: ['int32', 4],
  ShortStorage: ['int16', 2],
  CharStorage: ['int8', 1],
  ByteStorage: ['uint8', 1],
  BoolStorage: ['bool_', 1],
  ComplexFloatStorage: ['complex64', 8],
};

const LARGEST_PICKLE = 100_000_000;
const MOST_AXES = 64;

/** A file of numbers. */
class Storage {
  readonly name: string;
  readonly dtype: Dtype;
  readonly itemSize: number;
  readonly length: number;
  readonly offset: number;

  constructor(name: string, type: string, length: number, offset: number) {
    this.name = name;
    [this.dtype, this.itemSize] = DTYPES[type];
    this.length = length;
    this.offset = offset;
  }
}

/** What a tensor is: a view of a storage, in elements. */
interface View {
  storage: Storage;
  offset: number;
  shape: readonly number[];
  strides: readonly number[];
}

/** As `_rebuild_tensor_v2` gets it; what follows the strides is about gradients. */
function viewOf([storage, offset, shape, strides]: readonly unknown[]): View {
  const wrong = new PickleError('a tensor has no valid place in a storage');
  if (!(storage instanceof Storage && isSizes(shape) && isSizes(strides))) throw wrong;
  if (!isSizes([offset]) || shape.length !== strides.length || shape.length > MOST_AXES)
    throw wrong;
  const first = offset as number;
  const count = shape.reduce((product, size) => product * size, 1);
  const last = shape.reduce((sum, size, axis) => sum + (size - 1) * strides[axis], first);
  const { name, length } = storage;
  if (count > 0 && !(last < length)) {
    throw new PickleError(`a tensor ends after its storage ${quoted(name)}`);
  }
  if (count > length) {
    throw new PickleError(`a tensor repeats its storage ${quoted(name)}, which is not supported`);
  }
  return { storage, offset: first, shape, strides };
}

function isSizes(value: unknown): value is number[] {
  return (
    Array.isArray(value) &&
    value.every((size: unknown) => Number.isSafeInteger(size) && (size as number) >= 0)
  );
}

/** Row after row, without holes. Strides of axes with one element say nothing. */
function isContiguous({ shape, strides }: View): boolean {
  let expected = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (shape[axis] !== 1 && strides[axis] !== expected) return false;
    expected *= shape[axis];
  }
  return true;
}

function tensorOf(view: View, file: MappedFile): MxArray {
  const { storage, offset, shape, strides } = view;
  const start = storage.offset + offset * storage.itemSize;
  if (shape.includes(0)) return mx.zeros(shape, storage.dtype);
  if (isContiguous(view)) return file.array(start, shape, storage.dtype);
  return mx.tidy(() => {
    const all = file.array(storage.offset, [storage.length], storage.dtype);
    return mx.asStrided(all, shape, strides, offset);
  });
}

/** Reads the storages and tensors of one file. */
class Reader {
  /** All tensors that were made. */
  readonly tensors: MxArray[] = [];
  readonly #file: MappedFile;
  readonly #entryOf: (name: string) => StoredEntry;
  readonly #storages = new Map<unknown, Storage>();

  constructor(file: MappedFile, entryOf: (name: string) => StoredEntry) {
    this.#file = file;
    this.#entryOf = entryOf;
  }

  get globals(): Globals {
    const tensor = (args: readonly unknown[]): MxArray => {
      const array = tensorOf(viewOf(args), this.#file);
      this.tensors.push(array);
      return array;
    };
    const noFunction = (): never => {
      throw new PickleError('a type of storage is called as a function');
    };
    return new Map<string, (args: readonly unknown[]) => unknown>([
      ['torch._utils._rebuild_tensor_v2', tensor],
      ['torch._utils._rebuild_parameter', ([parameter]) => parameter],
      ['collections.OrderedDict', orderedDict],
      ...Object.keys(DTYPES).map((name) => [`torch.${name}`, noFunction] as const),
    ]);
  }

  /** `('storage', type, name, device, elements)` */
  storage(id: unknown): Storage {
    const [kind, type, name, , length] = Array.isArray(id) ? (id as unknown[]) : [];
    const typeName = type instanceof Global ? type.name.replace(/^torch\./, '') : '';
    if (kind !== 'storage' || !Object.hasOwn(DTYPES, typeName) || typeof name !== 'string') {
      throw new PickleError('a persistent id names no storage');
    }
    const known = this.#storages.get(name);
    const { offset, bytes } = this.#entryOf(`data/${name}`);
    const storage = new Storage(name, typeName, length as number, offset);
    if (known && known.dtype !== storage.dtype) {
      throw new PickleError(`its storage ${quoted(name)} is of several dtypes`);
    }
    if (!isSizes([length]) || storage.length * storage.itemSize !== bytes) {
      throw new PickleError(
        `its storage ${quoted(name)} has ${bytes} bytes, not ${quoted(length)} elements of ${storage.dtype}`,
      );
    }
    this.#storages.set(name, storage);
    return storage;
  }
}

/** Of nothing, or of a list of items. */
function orderedDict([items = []]: readonly unknown[]): Map<unknown, unknown> {
  const isItem = (item: unknown): item is [unknown, unknown] =>
    Array.isArray(item) && item.length === 2;
  if (Array.isArray(items) && items.every(isItem)) return new Map(items);
  throw new PickleError('an OrderedDict is made of what are no items');
}

/** The folder that all entries lie in, named after the file as it was saved. */
function folderOf({ entries, fail }: StoredFile): string {
  const pickles = [...entries.keys()].filter((name) => /^[^/]+\/data\.pkl$/.test(name));
  if (pickles.length !== 1) throw fail('it has no data.pkl');
  return pickles[0].slice(0, -'data.pkl'.length);
}

function readObject(path: string, zip: StoredFile): unknown {
  const folder = folderOf(zip);
  const entryOf = (name: string): StoredEntry => {
    const entry = zip.entries.get(folder + name);
    if (!entry) throw zip.fail(`it has no ${quoted(name)}`);
    return entry;
  };
  const order = zip.entries.get(`${folder}byteorder`);
  if (order && zip.read(order).toString().trim() !== 'little') {
    throw zip.fail('its numbers are not little-endian');
  }
  const pickle = entryOf('data.pkl');
  if (pickle.bytes > LARGEST_PICKLE) throw zip.fail(`its data.pkl has ${pickle.bytes} bytes`);
  using file = mx.mapFile(path);
  const reader = new Reader(file, entryOf);
  try {
    return unpickle(zip.read(pickle), {
      globals: reader.globals,
      persistent: (id) => reader.storage(id),
    });
  } catch (cause) {
    for (const tensor of reader.tensors) tensor.dispose();
    if (!(cause instanceof PickleError)) throw cause;
    throw new CheckpointError(`${path} can't be read: ${cause.message}.`, { cause });
  }
}

/**
 * Reads a `.pt` or `.pth` file: tensors and plain data. Nothing of it is executed; a pickle that asks for any
 * other class or function is refused by its name. On the CPU tensors lie in the file, which stays mapped while
 * they live; those with other strides than rows have are copied.
 *
 * @throws CheckpointError when it can't be read, is older than version 1.6 of PyTorch, or holds something else
 */
export function readPyTorch(path: string): PyTorchValue {
  return withStoredEntries(path, (zip) => readObject(path, zip)) as PyTorchValue;
}
