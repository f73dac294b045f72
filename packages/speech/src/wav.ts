/**
 * WAV files: RIFF, RIFX (big-endian) and RF64/BW64 containers with PCM, float, A-law or µ-law.
 *
 * Chunks are walked and PCM is read here, because real files lie about their sizes in ways that
 * `wavefile` answers with silently lost audio (a data length of 0) or slowly (0.7 s for 30 s of
 * floats). `wavefile` supplies the A-law and µ-law codecs and the headers of files written.
 *
 * Format: Microsoft/IBM "Multimedia Programming Interface and Data Specifications 1.0", RFC 2361
 * (format tags), EBU Tech 3306 (RF64).
 */
import { endianness } from 'node:os';
import { AudioError } from '@mlx-runners/mlx-core/errors';
import * as wavefileModule from 'wavefile';

// Node gives what CommonJS exports as `default`; bundlers take wavefile's ES module, which has none.
const { WaveFile } = 'default' in wavefileModule ? wavefileModule.default : wavefileModule;

/** Decoded audio: one array a channel, all equally long, nominally within −1..1. */
export interface PcmAudio {
  samples: Float32Array[];
  /** Hz */
  sampleRate: number;
}

export type WavDepth = '16' | '32f';

interface WavFormat {
  tag: number;
  channels: number;
  sampleRate: number;
  bits: number;
  bytesPerSample: number;
}

/** What a sample is in memory: value = (flat[i] − bias) · scale. */
interface FlatSamples {
  flat: Uint8Array | Int16Array | Int32Array | Float32Array | Float64Array;
  bias: number;
  scale: number;
}

const PCM = 0x0001;
const FLOAT = 0x0003;
const A_LAW = 0x0006;
const MU_LAW = 0x0007;
const EXTENSIBLE = 0xfffe;

const CODECS = new Map([
  [PCM, { name: 'PCM', supports: (bits: number) => bits >= 1 && bits <= 32 }],
  [FLOAT, { name: 'float', supports: (bits: number) => bits === 32 || bits === 64 }],
  [A_LAW, { name: 'A-law', supports: (bits: number) => bits === 8 }],
  [MU_LAW, { name: 'µ-law', supports: (bits: number) => bits === 8 }],
]);

const UNSUPPORTED_CODECS = new Map([
  [0x0002, 'Microsoft ADPCM'],
  [0x0011, 'IMA ADPCM'],
  [0x0031, 'GSM 6.10'],
  [0x0045, 'G.726 ADPCM'],
  [0x0050, 'MPEG audio'],
  [0x0055, 'MP3'],
  [0x00ff, 'AAC'],
  [0x0161, 'Windows Media Audio'],
  [0x674f, 'Ogg Vorbis'],
]);

const SUPPORTED = 'PCM of 8 to 32 bit, float of 32 or 64 bit, A-law and µ-law';
const REMEDY = 'convert it with `ffmpeg -i in.wav -c:a pcm_s16le out.wav`';

// A header of a few bytes must not make tens of thousands of arrays.
const MAX_CHANNELS = 1024;
const MAX_UINT32 = 0xffffffff;

/**
 * Decodes a WAV file.
 *
 * The data length in the header is believed only as far as it fits: 0 (unless chunks follow),
 * 0xFFFFFFFF and lengths past the end all mean "the rest of the file"; an incomplete last frame is
 * dropped. A file without any frame gives empty channels.
 *
 * @throws AudioError where the bytes are not a WAV file, its header is truncated or senseless, or
 *   its codec is not supported.
 */
export function decodeWav(bytes: Uint8Array): PcmAudio {
  const { format, data, littleEndian } = readChunks(bytes);
  const frames = Math.floor(data.length / (format.channels * format.bytesPerSample));
  const used = data.subarray(0, frames * format.channels * format.bytesPerSample);
  return {
    samples: deinterleave(flatSamples(used, format, littleEndian), format.channels, frames),
    sampleRate: format.sampleRate,
  };
}

/**
 * Writes a WAV file: 16-bit PCM (values are clipped to −1..1; full scale is 32768, so 16-bit audio
 * survives a round trip unchanged) or 32-bit float (kept as they are).
 *
 * @throws AudioError for no channels, channels of unequal length, a rate that is no positive
 *   integer, NaN samples, or more than the 4 GiB that a WAV file can hold.
 */
export function encodeWav(audio: PcmAudio, options: { depth?: WavDepth } = {}): Uint8Array {
  const { samples, sampleRate } = audio;
  const depth = options.depth ?? '16';
  checkEncodable(audio, depth);
  const wav = new WaveFile();
  wav.fromScratch(samples.length, sampleRate, depth, []);
  // Samples are packed here: wavefile needs 1.4 s for 30 s of floats, and wraps at full scale.
  Object.assign(wav.data, { samples: interleave(samples, depth) });
  return wav.toBuffer();
}

function readChunks(bytes: Uint8Array) {
  const container = fourCc(bytes, 0);
  const isWave = ['RIFF', 'RIFX', 'RF64', 'BW64'].includes(container) && bytes.length >= 12;
  if (!isWave || fourCc(bytes, 8) !== 'WAVE') {
    throw new AudioError(
      bytes.length === 0
        ? 'The audio is empty (0 bytes); a WAV file starts with a RIFF header.'
        : 'Not a WAV file: it does not start with a complete RIFF/WAVE header.',
    );
  }
  const littleEndian = container !== 'RIFX';
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let format: WavFormat | undefined;
  let data: Uint8Array | undefined;
  let longDataSize: number | undefined;
  let offset = 12;
  while (offset + 8 <= bytes.length) {
    const id = fourCc(bytes, offset);
    const body = offset + 8;
    let size = view.getUint32(offset + 4, littleEndian);
    if (id === 'ds64' && size >= 16 && body + 16 <= bytes.length) {
      longDataSize = view.getUint32(body + 8, true) + view.getUint32(body + 12, true) * 2 ** 32;
    } else if (id === 'fmt ') {
      format ??= readFormat(view, body, Math.min(size, bytes.length - body), littleEndian);
    } else if (id === 'data' && !data) {
      if (size === MAX_UINT32 && longDataSize !== undefined) size = longDataSize;
      if (size === 0 && !chunksFollow(bytes, view, body, littleEndian)) size = MAX_UINT32;
      // subarray() ends where the bytes end.
      data = bytes.subarray(body, body + size);
    }
    if (format && data) return { format, data, littleEndian };
    offset = nextChunk(bytes, body + size);
  }
  throw new AudioError(
    format
      ? "The WAV file has no 'data' chunk: its header is truncated or a chunk's size is wrong."
      : "The WAV file has no complete 'fmt ' chunk: its header is truncated or damaged.",
  );
}

/** Where the next chunk starts: after the pad byte of an odd one, unless its writer left it out. */
function nextChunk(bytes: Uint8Array, end: number): number {
  const padMissing = end % 2 === 1 && ['fmt ', 'data'].includes(fourCc(bytes, end));
  return end % 2 === 1 && !padMissing ? end + 1 : end;
}

/** Whether well-formed chunks lead from `offset` to the end of the file. */
function chunksFollow(
  bytes: Uint8Array,
  view: DataView,
  offset: number,
  littleEndian: boolean,
): boolean {
  while (offset + 8 <= bytes.length) {
    if (!/^[ -~]{4}$/.test(fourCc(bytes, offset))) return false;
    const end = offset + 8 + view.getUint32(offset + 4, littleEndian);
    offset = end + (end % 2);
  }
  return offset === bytes.length || offset === bytes.length + 1;
}

function readFormat(view: DataView, body: number, size: number, littleEndian: boolean): WavFormat {
  if (size < 16) {
    throw new AudioError(
      `The WAV file's 'fmt ' chunk is truncated: ${size} bytes instead of at least 16.`,
    );
  }
  let tag = view.getUint16(body, littleEndian);
  const channels = view.getUint16(body + 2, littleEndian);
  const sampleRate = view.getUint32(body + 4, littleEndian);
  const blockAlign = view.getUint16(body + 12, littleEndian);
  const bits = view.getUint16(body + 14, littleEndian);
  if (tag === EXTENSIBLE && size >= 26) tag = view.getUint16(body + 24, littleEndian);
  if (channels === 0 || channels > MAX_CHANNELS) {
    throw new AudioError(
      `The WAV header says ${channels} channels; 1 to ${MAX_CHANNELS} are supported.`,
    );
  }
  if (sampleRate === 0) throw new AudioError('The WAV header says a sample rate of 0 Hz.');
  checkCodec(tag, bits);
  // 24 significant bits may stand left-justified in four bytes.
  const widened = bits > 16 && bits <= 24 && blockAlign === 4 * channels;
  return { tag, channels, sampleRate, bits, bytesPerSample: widened ? 4 : Math.ceil(bits / 8) };
}

function checkCodec(tag: number, bits: number): void {
  const codec = CODECS.get(tag);
  if (codec?.supports(bits)) return;
  const hex = `format tag 0x${tag.toString(16).padStart(4, '0')}`;
  const found = codec
    ? `${codec.name} of ${bits} bit`
    : `${UNSUPPORTED_CODECS.get(tag) ?? 'an unknown codec'} (${hex})`;
  throw new AudioError(
    `The WAV file holds ${found}, which is not supported (only ${SUPPORTED}); ${REMEDY}.`,
  );
}

function flatSamples(data: Uint8Array, format: WavFormat, littleEndian: boolean): FlatSamples {
  const { tag, bytesPerSample } = format;
  if (tag === A_LAW || tag === MU_LAW) {
    const table = companding(tag);
    const flat = new Int16Array(data.length);
    for (let i = 0; i < flat.length; i++) flat[i] = table[data[i]]!;
    return { flat, bias: 0, scale: 2 ** -15 };
  }
  if (bytesPerSample === 1) return { flat: data, bias: 128, scale: 2 ** -7 };
  if (bytesPerSample === 3) return { flat: widen24(data, littleEndian), bias: 0, scale: 2 ** -31 };
  const { buffer, byteOffset, byteLength } = nativeOrder(data, bytesPerSample, littleEndian);
  const length = byteLength / bytesPerSample;
  if (bytesPerSample === 2) {
    return { flat: new Int16Array(buffer, byteOffset, length), bias: 0, scale: 2 ** -15 };
  }
  if (tag === PCM) {
    return { flat: new Int32Array(buffer, byteOffset, length), bias: 0, scale: 2 ** -31 };
  }
  const flat =
    bytesPerSample === 4
      ? new Float32Array(buffer, byteOffset, length)
      : new Float64Array(buffer, byteOffset, length);
  return { flat, bias: 0, scale: 1 };
}

/** The bytes in this machine's order and aligned for a typed array; a copy only where needed. */
function nativeOrder(data: Uint8Array, width: number, littleEndian: boolean): Uint8Array {
  const swap = littleEndian !== (endianness() === 'LE');
  if (!swap && data.byteOffset % width === 0) return data;
  // Not slice(): a Buffer's slice shares its memory, and the caller's bytes must stay as they are.
  const copy = new Uint8Array(data);
  if (swap) {
    const buffer = Buffer.from(copy.buffer);
    if (width === 2) buffer.swap16();
    else if (width === 4) buffer.swap32();
    else buffer.swap64();
  }
  return copy;
}

/** 24-bit integers as 32-bit ones, left-justified. */
function widen24(data: Uint8Array, littleEndian: boolean): Int32Array {
  const out = new Int32Array(data.length / 3);
  const [low, high] = littleEndian ? [0, 2] : [2, 0];
  for (let i = 0, at = 0; i < out.length; i++, at += 3) {
    out[i] = (data[at + low] << 8) | (data[at + 1] << 16) | (data[at + high] << 24);
  }
  return out;
}

const compandingTables = new Map<number, ArrayLike<number>>();

/** The 16-bit value of every A-law or µ-law code, as wavefile's codecs (ITU-T G.711) have it. */
function companding(tag: number): ArrayLike<number> {
  let table = compandingTables.get(tag);
  if (!table) {
    const codes = Uint8Array.from({ length: 256 }, (_, code) => code);
    const wav = new WaveFile();
    wav.fromScratch(1, 8000, tag === A_LAW ? '8a' : '8m', codes);
    if (tag === A_LAW) wav.fromALaw();
    else wav.fromMuLaw();
    table = wav.getSamples();
    compandingTables.set(tag, table);
  }
  return table;
}

function deinterleave(source: FlatSamples, channels: number, frames: number): Float32Array[] {
  const { flat, bias, scale } = source;
  return Array.from({ length: channels }, (_, channel) => {
    const out = new Float32Array(frames);
    for (let i = 0, at = channel; i < frames; i++, at += channels) {
      out[i] = (flat[at] - bias) * scale;
    }
    return out;
  });
}

function checkEncodable({ samples, sampleRate }: PcmAudio, depth: WavDepth): void {
  const frames = samples[0]?.length;
  if (frames === undefined || samples.length > MAX_CHANNELS) {
    throw new AudioError(`A WAV file has 1 to ${MAX_CHANNELS} channels, not ${samples.length}.`);
  }
  if (samples.some((channel) => channel.length !== frames)) {
    throw new AudioError(
      `All channels must be equally long; got ${samples.map((c) => c.length).join(', ')} samples.`,
    );
  }
  const byteRate = sampleRate * samples.length * (depth === '16' ? 2 : 4);
  if (!Number.isInteger(sampleRate) || sampleRate < 1 || byteRate > MAX_UINT32) {
    throw new AudioError(
      `A WAV file's sample rate is a positive integer in Hz, not ${sampleRate}.`,
    );
  }
  const size = frames * samples.length * (depth === '16' ? 2 : 4);
  if (size > MAX_UINT32 - 1024) {
    throw new AudioError(`A WAV file holds at most 4 GiB; these samples take ${size} bytes.`);
  }
  if (samples.some((channel) => channel.some(Number.isNaN))) {
    throw new AudioError('NaN samples cannot be written to a WAV file.');
  }
}

/** Interleaved samples as little-endian bytes. */
function interleave(samples: Float32Array[], depth: WavDepth): Uint8Array {
  const channels = samples.length;
  const length = samples[0].length * channels;
  const integers = depth === '16';
  const packed = integers ? new Int16Array(length) : new Float32Array(length);
  samples.forEach((channel, c) => {
    for (let i = 0, at = c; i < channel.length; i++, at += channels) {
      const value = channel[i];
      packed[at] = integers ? Math.max(-32768, Math.min(32767, Math.round(value * 32768))) : value;
    }
  });
  const bytes = Buffer.from(packed.buffer);
  if (endianness() === 'BE') {
    if (integers) bytes.swap16();
    else bytes.swap32();
  }
  return bytes;
}

function fourCc(bytes: Uint8Array, offset: number): string {
  return String.fromCharCode(...bytes.subarray(offset, offset + 4));
}
