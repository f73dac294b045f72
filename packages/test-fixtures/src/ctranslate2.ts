/** A writer of CTranslate2's model.bin, which has none in JavaScript (see packages/nn). */

export interface CTranslate2Variable {
  readonly name: string;
  readonly shape: readonly number[];
  /** Little-endian and row-major. */
  readonly data: Float32Array | Int8Array | Int16Array | Int32Array;
}

export interface CTranslate2Options {
  readonly version?: number;
  /** Alias → name of the variable. */
  readonly aliases?: Readonly<Record<string, string>>;
}

/** The bytes of a model.bin. */
export function cTranslate2Bytes(
  variables: readonly CTranslate2Variable[],
  { version = 6, aliases = {} }: CTranslate2Options = {},
): Buffer {
  const aliasEntries = Object.entries(aliases);
  return Buffer.concat([
    uint(version, 4),
    string('WhisperSpec'),
    uint(3, 4),
    uint(variables.length, 4),
    ...variables.flatMap(({ name, shape, data }) => [
      string(name),
      uint(shape.length, 1),
      ...shape.map((size) => uint(size, 4)),
      uint(dtypeCode(data), 1),
      uint(data.byteLength, 4),
      Buffer.from(data.buffer, data.byteOffset, data.byteLength),
    ]),
    uint(aliasEntries.length, 4),
    ...aliasEntries.flat().map(string),
  ]);
}

function dtypeCode(data: CTranslate2Variable['data']): number {
  if (data instanceof Float32Array) return 0;
  if (data instanceof Int8Array) return 1;
  return data instanceof Int16Array ? 2 : 3;
}

/** Its length with the closing NUL, as u16, and the bytes. */
function string(text: string): Buffer {
  const bytes = Buffer.from(`${text}\0`);
  return Buffer.concat([uint(bytes.length, 2), bytes]);
}

function uint(value: number, width: number): Buffer {
  const bytes = Buffer.alloc(width);
  bytes.writeUIntLE(value, 0, width);
  return bytes;
}
