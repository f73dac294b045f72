/** A writer of GGUF files, right and wrong ones. */

/** Types of metadata, by their numbers in a file. */
export const ggufTypes = [
  'uint8',
  'int8',
  'uint16',
  'int16',
  'uint32',
  'int32',
  'float32',
  'bool',
  'string',
  'array',
  'uint64',
  'int64',
  'float64',
] as const;
export type GgufValueType = (typeof ggufTypes)[number];

/** A value with its type; lists are of one type, `array` of lists again. */
export type GgufEntry =
  | { readonly type: Exclude<GgufValueType, 'array'>; readonly value: unknown }
  | { readonly type: 'array'; readonly of: GgufValueType; readonly value: readonly unknown[] };

export interface GgufFileTensor {
  readonly name: string;
  /** ggml's number. */
  readonly type: number;
  /** As in the file: the fastest axis first. */
  readonly sizes: readonly (number | bigint)[];
  readonly data: Uint8Array;
  /** In the tensors' data; behind the tensor before it, aligned, unless given. */
  readonly offset?: number | bigint;
}

export interface GgufOptions {
  readonly magic?: string;
  readonly version?: number;
  readonly alignment?: number;
  readonly tensorCount?: number | bigint;
  readonly valueCount?: number | bigint;
}

/** The bytes of a file. Keys may come twice, so metadata are a list. */
export function ggufBytes(
  metadata: readonly (readonly [string, GgufEntry])[],
  tensors: readonly GgufFileTensor[],
  options: GgufOptions = {},
): Buffer {
  const { magic = 'GGUF', version = 3, alignment = 32 } = options;
  const padded = (bytes: Uint8Array): Buffer =>
    Buffer.concat([bytes, Buffer.alloc((alignment - (bytes.length % alignment)) % alignment)]);
  let end = 0;
  const infos = tensors.map(({ name, type, sizes, data, offset = end }) => {
    end += padded(data).length;
    return Buffer.concat([
      text(name),
      number('uint32', sizes.length),
      ...sizes.map((size) => number('uint64', size)),
      number('uint32', type),
      number('uint64', offset),
    ]);
  });
  const header = Buffer.concat([
    Buffer.from(magic, 'latin1'),
    number('uint32', version),
    number('uint64', options.tensorCount ?? tensors.length),
    number('uint64', options.valueCount ?? metadata.length),
    ...metadata.flatMap(([key, entry]) => [text(key), typeNumber(entry.type), value(entry)]),
    ...infos,
  ]);
  return Buffer.concat([padded(header), ...tensors.map(({ data }) => padded(data))]);
}

function typeNumber(type: GgufValueType): Buffer {
  return number('uint32', ggufTypes.indexOf(type));
}

function value(entry: GgufEntry): Buffer {
  if (entry.type === 'array') {
    const elements = entry.value.map((each) =>
      value(entry.of === 'array' ? (each as GgufEntry) : { type: entry.of, value: each }),
    );
    // A list in a list is written without its type, as all elements are.
    return Buffer.concat([typeNumber(entry.of), number('uint64', elements.length), ...elements]);
  }
  return entry.type === 'string' ? text(entry.value as string) : number(entry.type, entry.value);
}

/** A text with its length; a list of bytes for what is no UTF-8. */
function text(content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content as string);
  return Buffer.concat([number('uint64', bytes.length), bytes]);
}

const WRITERS: Readonly<Record<string, (bytes: DataView, value: never) => void>> = {
  uint8: (bytes, value: number) => bytes.setUint8(0, value),
  int8: (bytes, value: number) => bytes.setInt8(0, value),
  bool: (bytes, value: boolean | number) => bytes.setUint8(0, Number(value)),
  uint16: (bytes, value: number) => bytes.setUint16(0, value, true),
  int16: (bytes, value: number) => bytes.setInt16(0, value, true),
  uint32: (bytes, value: number) => bytes.setUint32(0, value, true),
  int32: (bytes, value: number) => bytes.setInt32(0, value, true),
  float32: (bytes, value: number) => bytes.setFloat32(0, value, true),
  uint64: (bytes, value: number) => bytes.setBigUint64(0, BigInt(value), true),
  int64: (bytes, value: number) => bytes.setBigInt64(0, BigInt(value), true),
  float64: (bytes, value: number) => bytes.setFloat64(0, value, true),
};

/** Bytes of what is neither a text nor a list. */
export const ggufSizes: Readonly<Record<string, number>> = {
  uint8: 1,
  int8: 1,
  bool: 1,
  uint16: 2,
  int16: 2,
  uint32: 4,
  int32: 4,
  float32: 4,
  uint64: 8,
  int64: 8,
  float64: 8,
};

function number(type: string, value: unknown): Buffer {
  const bytes = new DataView(new ArrayBuffer(ggufSizes[type]));
  WRITERS[type](bytes, value as never);
  return Buffer.from(bytes.buffer);
}
