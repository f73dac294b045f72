/** A reader of GGUF files that was written apart from the native one, to hold the two against each other. */
import { ggufSizes, ggufTypes, type GgufValueType } from './gguf-writer.js';
import { FixtureError } from './safetensors.js';

/** Weights and bytes of a block, by ggml's number, of the types that are read. */
const BLOCKS: Readonly<Record<number, readonly [number, number]>> = {
  0: [1, 4],
  1: [1, 2],
  2: [32, 18],
  3: [32, 20],
  6: [32, 22],
  7: [32, 24],
  8: [32, 34],
  12: [256, 144],
  13: [256, 176],
  14: [256, 210],
  24: [1, 1],
  25: [1, 2],
  26: [1, 4],
  27: [1, 8],
  28: [1, 8],
  30: [1, 2],
};

export interface GgufFixture {
  /** Lists are plain lists, 64-bit integers BigInt. */
  readonly metadata: ReadonlyMap<string, unknown>;
  readonly tensors: ReadonlyMap<string, { type: number; shape: number[]; data: Buffer }>;
}

/**
 * Reads a file of one part, as strictly as ours.
 *
 * @throws FixtureError for anything that is wrong with it
 */
export function readGguf(file: Buffer): GgufFixture {
  const reader = new Reader(file);
  const need = (holds: boolean, what: string): void => {
    if (!holds) throw new FixtureError(what);
  };
  need(reader.take(4).toString('latin1') === 'GGUF', 'magic');
  const version = Number(reader.number('uint32'));
  need(version === 2 || version === 3, 'version');
  const [tensorCount, valueCount] = [reader.count(25), reader.count(14)];
  const metadata = new Map<string, unknown>();
  let alignment = 32;
  for (let i = 0; i < valueCount; i++) {
    const key = reader.name();
    need(!metadata.has(key), 'a key twice');
    const type = reader.type();
    metadata.set(key, reader.value(type, 0));
    if (key !== 'general.alignment') continue;
    alignment = Number(metadata.get(key));
    need(type === 'uint32' && alignment > 0 && (alignment & (alignment - 1)) === 0, 'alignment');
  }
  const infos = Array.from({ length: tensorCount }, () => {
    const name = reader.name();
    const axes = Number(reader.number('uint32'));
    need(axes <= 4, 'axes');
    const sizes = Array.from({ length: axes }, () => Number(reader.number('uint64')));
    const type = Number(reader.number('uint32'));
    const block = BLOCKS[type] as (typeof BLOCKS)[0] | undefined;
    const offset = BigInt(reader.number('uint64'));
    if (!block) throw new FixtureError('type');
    const elements = sizes.reduce((product, size) => product * size, 1);
    need(sizes.every((size) => size < 2 ** 31) && (sizes[0] ?? 1) % block[0] === 0, 'sizes');
    need(((sizes[0] ?? 1) / block[0]) * block[1] < 2 ** 31 || block[0] === 1, 'row');
    need(offset % BigInt(alignment) === 0n, 'offset');
    return {
      name,
      type,
      shape: sizes.reverse(),
      offset: Number(offset),
      bytes: (elements / block[0]) * block[1],
    };
  });
  const dataAt = Math.ceil(reader.position / alignment) * alignment;
  const tensors = new Map<string, { type: number; shape: number[]; data: Buffer }>();
  let end = 0;
  for (const { name, type, shape, offset, bytes } of infos.toSorted(
    (a, b) => a.offset - b.offset || a.bytes - b.bytes,
  )) {
    need(!tensors.has(name), 'a tensor twice');
    if (bytes > 0) {
      need(offset >= end && dataAt + offset + bytes <= file.length, 'place');
      end = offset + bytes;
    }
    const start = bytes > 0 ? dataAt + offset : 0;
    tensors.set(name, { type, shape, data: file.subarray(start, start + bytes) });
  }
  return { metadata, tensors };
}

const LONGEST_NAME = 65535;
const DEEPEST = 8;

class Reader {
  position = 0;
  private readonly file: Buffer;

  constructor(file: Buffer) {
    this.file = file;
  }

  take(bytes: number): Buffer {
    if (bytes > this.file.length - this.position) throw new FixtureError('cut off');
    this.position += bytes;
    return this.file.subarray(this.position - bytes, this.position);
  }

  number(type: string): number | bigint {
    const { buffer, byteOffset, length } = this.take(ggufSizes[type]);
    const view = new DataView(buffer, byteOffset, length);
    const read = { bool: 'Uint8', uint64: 'BigUint64', int64: 'BigInt64' }[type];
    const name = `get${read ?? type[0].toUpperCase() + type.slice(1)}`;
    const found = (view as unknown as Record<string, (at: number, little: boolean) => number>)[
      name
    ](0, true);
    if (type === 'bool' && found > 1) throw new FixtureError('neither true nor false');
    return found;
  }

  count(bytes: number): number {
    const count = Number(this.number('uint64'));
    if (count * bytes > this.file.length - this.position) throw new FixtureError('count');
    return count;
  }

  text(): string {
    return this.take(Number(this.number('uint64'))).toString('utf8');
  }

  name(): string {
    const start = this.position + 8;
    const name = this.text();
    const bytes = this.position - start;
    if (bytes === 0 || bytes > LONGEST_NAME) throw new FixtureError('name');
    return name;
  }

  type(): GgufValueType {
    const type = ggufTypes[Number(this.number('uint32'))] as GgufValueType | undefined;
    if (!type) throw new FixtureError('type of metadata');
    return type;
  }

  value(type: GgufValueType, depth: number): unknown {
    if (type === 'string') return this.text();
    if (type !== 'array') {
      const found = this.number(type);
      return type === 'bool' ? found === 1 : found;
    }
    const of = this.type();
    if (of === 'array' && depth + 1 === DEEPEST) throw new FixtureError('depth');
    const length = this.count(of === 'string' ? 8 : of === 'array' ? 12 : ggufSizes[of]);
    return Array.from({ length }, () => this.value(of, depth + 1));
  }
}
