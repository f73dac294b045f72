/** A writer of PyTorch's checkpoints, which has none in JavaScript (see packages/nn). */

export interface PyTorchTensor {
  readonly shape: readonly number[];
  /** Row-major, in elements; those of contiguous rows unless given. */
  readonly strides?: readonly number[];
  /** In elements. */
  readonly offset?: number;
  /** Tensors with the same array share a storage. */
  readonly data: Float32Array | Int32Array | Uint8Array;
}

/** A class of Python, by its name: the reader must refuse it. */
export interface PyTorchGlobal {
  readonly global: string;
}

export type PyTorchObject =
  | null
  | boolean
  | number
  | string
  | PyTorchTensor
  | PyTorchGlobal
  | readonly PyTorchObject[]
  | { readonly [key: string]: PyTorchObject };

export interface PyTorchOptions {
  /** Of zip: 0 stored (the default), 8 deflated. */
  readonly method?: number;
  readonly byteOrder?: string;
  /** Entries to leave out, by the ends of their names. */
  readonly without?: string;
}

/** The bytes of a file as torch.save writes it, but for checksums, which are 0. */
export function pyTorchBytes(value: PyTorchObject, options: PyTorchOptions = {}): Buffer {
  const { method = 0, byteOrder = 'little', without } = options;
  const pickler = new Pickler();
  const pickle = pickler.pickle(value);
  const entries: [string, Uint8Array][] = [
    ['data.pkl', pickle],
    ['byteorder', Buffer.from(byteOrder)],
    ...pickler.storages.map((data, i): [string, Uint8Array] => [
      `data/${i}`,
      new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
    ]),
    ['version', Buffer.from('3\n')],
  ];
  return zip(
    entries.filter(([name]) => name !== without).map(([name, data]) => [`model/${name}`, data]),
    method,
  );
}

class Pickler {
  readonly storages: PyTorchTensor['data'][] = [];

  pickle(value: PyTorchObject): Buffer {
    return Buffer.concat([Buffer.of(0x80, 2), this.#value(value), Buffer.from('.')]);
  }

  #value(value: PyTorchObject): Buffer {
    if (value === null) return Buffer.from('N');
    if (typeof value === 'boolean') return Buffer.of(value ? 0x88 : 0x89);
    if (typeof value === 'string') return text(value);
    if (typeof value === 'number') return number(value);
    if (Array.isArray(value)) return this.#list(value as readonly PyTorchObject[]);
    if (isTensor(value)) return this.#tensor(value);
    if (isGlobal(value)) return Buffer.concat([global(value.global), Buffer.from(')R')]);
    const items = Object.entries(value).flatMap(([key, each]) => [text(key), this.#value(each)]);
    return Buffer.concat([Buffer.from('}('), ...items, Buffer.from('u')]);
  }

  #list(values: readonly PyTorchObject[]): Buffer {
    const items = values.map((each) => this.#value(each));
    return Buffer.concat([Buffer.from(']('), ...items, Buffer.from('e')]);
  }

  #tensor({ shape, data, strides = stridesOf(shape), offset = 0 }: PyTorchTensor): Buffer {
    if (!this.storages.includes(data)) this.storages.push(data);
    const storage = tuple([
      text('storage'),
      global(`torch.${storageType(data)}`),
      text(String(this.storages.indexOf(data))),
      text('cpu'),
      number(data.length),
    ]);
    const place = tuple([
      Buffer.concat([storage, Buffer.from('Q')]),
      number(offset),
      tuple(shape.map(number)),
      tuple(strides.map(number)),
      Buffer.of(0x89),
      Buffer.concat([global('collections.OrderedDict'), Buffer.from(')R')]),
    ]);
    return Buffer.concat([global('torch._utils._rebuild_tensor_v2'), place, Buffer.from('R')]);
  }
}

function isTensor(value: object): value is PyTorchTensor {
  return 'shape' in value && 'data' in value;
}

function isGlobal(value: object): value is PyTorchGlobal {
  return 'global' in value;
}

function storageType(data: PyTorchTensor['data']): string {
  if (data instanceof Float32Array) return 'FloatStorage';
  return data instanceof Int32Array ? 'IntStorage' : 'ByteStorage';
}

function stridesOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => shape.slice(axis + 1).reduce((product, size) => product * size, 1));
}

function global(name: string): Buffer {
  const dot = name.lastIndexOf('.');
  return Buffer.from(`c${name.slice(0, dot)}\n${name.slice(dot + 1)}\n`);
}

function tuple(values: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from('('), ...values, Buffer.from('t')]);
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([Buffer.from('X'), u32(bytes.length), bytes]);
}

function number(value: number): Buffer {
  const isInt = Number.isInteger(value) && Math.abs(value) < 2 ** 31;
  const bytes = Buffer.alloc(isInt ? 5 : 9);
  bytes.write(isInt ? 'J' : 'G');
  if (isInt) bytes.writeInt32LE(value, 1);
  else bytes.writeDoubleBE(value, 1);
  return bytes;
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function zip(entries: readonly (readonly [string, Uint8Array])[], method: number): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, data] of entries) {
    const sizes = [u32(0), u32(data.length), u32(data.length), u16(Buffer.byteLength(name))];
    const head = [u16(20), u16(0), u16(method), u32(0), ...sizes, u16(0)];
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), ...head, Buffer.from(name), data]);
    files.push(local);
    const rest = [u16(0), u16(0), u16(0), u32(0), u32(offset), Buffer.from(name)];
    directory.push(Buffer.from('PK\u0001\u0002'), u16(20), ...head, ...rest);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const counts = [u16(0), u16(0), u16(entries.length), u16(entries.length)];
  const end = [...counts, u32(central.length), u32(offset), u16(0)];
  return Buffer.concat([...files, central, Buffer.from('PK\u0005\u0006'), ...end]);
}
