/** WAV files written by hand, with every mistake a test needs. */

export interface Chunk {
  id: string;
  body: Uint8Array | number[];
  /** What the header says, where it lies. */
  size?: number;
  /** Leaves out the pad byte of an odd chunk. */
  unpadded?: boolean;
}

export interface FormatFields {
  tag?: number;
  channels?: number;
  sampleRate?: number;
  bits?: number;
  blockAlign?: number;
  /** Makes the chunk extensible, with this as the codec. */
  subformat?: number;
  /** Of `bits`, in an extensible chunk. */
  validBits?: number;
}

export function riff(chunks: Chunk[], container = 'RIFF', bigEndian = false): Uint8Array {
  const parts: Buffer[] = chunks.map(({ id, body, size = body.length, unpadded }) => {
    const pad = body.length % 2 === 1 && !unpadded ? 1 : 0;
    const chunk = Buffer.alloc(8 + body.length + pad);
    chunk.write(id, 'latin1');
    writeUint(chunk, size, 4, 4, bigEndian);
    chunk.set(body, 8);
    return chunk;
  });
  const header = Buffer.alloc(12);
  header.write(container, 'latin1');
  header.write('WAVE', 8, 'latin1');
  const length = 4 + parts.reduce((total, part) => total + part.length, 0);
  writeUint(header, length, 4, 4, bigEndian);
  return new Uint8Array(Buffer.concat([header, ...parts]));
}

export function fmt(fields: FormatFields = {}, bigEndian = false): Chunk {
  const { tag = 1, channels = 1, sampleRate = 16000, bits = 16, subformat } = fields;
  const blockAlign = fields.blockAlign ?? channels * Math.ceil(bits / 8);
  const body = Buffer.alloc(subformat === undefined ? 16 : 40);
  const put = (value: number, at: number, width: number) =>
    writeUint(body, value, at, width, bigEndian);
  put(subformat === undefined ? tag : 0xfffe, 0, 2);
  put(channels, 2, 2);
  put(sampleRate, 4, 4);
  put((sampleRate * blockAlign) % 2 ** 32, 8, 4);
  put(blockAlign, 12, 2);
  put(bits, 14, 2);
  if (subformat !== undefined) {
    put(22, 16, 2);
    put(fields.validBits ?? bits, 18, 2);
    put(subformat, 24, 2);
  }
  return { id: 'fmt ', body };
}

/** Little-endian bytes of a typed array. */
export function bytesOf(values: ArrayBufferView): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

export const pcm16 = (values: number[]) => bytesOf(Int16Array.from(values));

function writeUint(bytes: Buffer, value: number, at: number, width: number, bigEndian: boolean) {
  const fitting = value % 2 ** (8 * width);
  if (bigEndian) bytes.writeUIntBE(fitting, at, width);
  else bytes.writeUIntLE(fitting, at, width);
}
