import { readFileSync } from 'node:fs';
import { AudioError } from '@mlx-runners/mlx-core/errors';
import { speechPath } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import wavefile from 'wavefile';
import { decodeWav, encodeWav } from '../src/index.js';
import { bytesOf, fmt, pcm16, riff, type Chunk } from './wav-bytes.js';

const VALUES = [0, 1, -1, 12345, -32768, 32767];
const EXPECTED = VALUES.map((value) => value / 32768);

const list = (length: number, unpadded = false): Chunk => ({
  id: 'LIST',
  body: new Uint8Array(length).fill(65),
  unpadded,
});

const mono = (wav: Uint8Array) => Array.from(decodeWav(wav).samples[0]);

describe('sample formats', () => {
  test('16-bit PCM', () => {
    const wav = decodeWav(riff([fmt(), { id: 'data', body: pcm16(VALUES) }]));
    expect(wav.sampleRate).toBe(16000);
    expect(wav.samples.map((channel) => Array.from(channel))).toEqual([EXPECTED]);
  });

  test('8-bit PCM is unsigned', () => {
    const wav = riff([fmt({ bits: 8 }), { id: 'data', body: [0, 128, 255] }]);
    expect(mono(wav)).toEqual([-1, 0, 127 / 128]);
  });

  test('24-bit PCM', () => {
    const body = [0, 0, 0x80, 0xff, 0xff, 0x7f, 1, 0, 0, 0xff, 0xff, 0xff];
    const wav = riff([fmt({ bits: 24 }), { id: 'data', body }]);
    expect(mono(wav)).toEqual([-1, Math.fround(1 - 2 ** -23), 2 ** -23, -(2 ** -23)]);
  });

  test('24 bits left-justified in 32, and 32-bit PCM', () => {
    const body = bytesOf(Int32Array.of(-(2 ** 31), 2 ** 30, 256));
    const expected = [-1, 0.5, 2 ** -23];
    expect(mono(riff([fmt({ bits: 24, blockAlign: 4 }), { id: 'data', body }]))).toEqual(expected);
    expect(mono(riff([fmt({ bits: 32 }), { id: 'data', body }]))).toEqual(expected);
  });

  // "The bits that represent the sample amplitude are stored in the most significant bits of i, and
  // the remaining bits are set to zero" (Multimedia Programming Interface and Data Specifications).
  test.each([
    ['13 bits in 16', { bits: 13 }, bytesOf(Int16Array.of(-32768, 16384, 8)), [-1, 0.5, 2 ** -12]],
    ['5 bits in 8, unsigned', { bits: 5 }, Uint8Array.of(0, 192, 136), [-1, 0.5, 2 ** -4]],
    ['20 bits in 24', { bits: 20 }, Uint8Array.of(0, 0, 0x80, 16, 0, 0), [-1, 2 ** -19]],
    [
      '20 valid bits of 24, extensible',
      { bits: 24, validBits: 20, subformat: 1 },
      Uint8Array.of(0, 0, 0x80, 16, 0, 0),
      [-1, 2 ** -19],
    ],
  ])('%s: the most significant ones', (_, fields, body, expected) => {
    expect(mono(riff([fmt(fields), { id: 'data', body }]))).toEqual(expected);
  });

  test.each([
    ['32-bit', 32, Float32Array.of(0.25, -1.5, 1)],
    ['64-bit', 64, Float64Array.of(0.25, -1.5, 1)],
  ])('%s float, also beyond full scale', (_, bits, values) => {
    const wav = riff([fmt({ tag: 3, bits }), { id: 'data', body: bytesOf(values) }]);
    expect(mono(wav)).toEqual([0.25, -1.5, 1]);
  });

  test('extensible headers name the codec in their GUID', () => {
    const pcm = riff([fmt({ subformat: 1 }), { id: 'data', body: pcm16(VALUES) }]);
    expect(mono(pcm)).toEqual(EXPECTED);
    const body = bytesOf(Float32Array.of(0.5));
    expect(mono(riff([fmt({ subformat: 3, bits: 32 }), { id: 'data', body }]))).toEqual([0.5]);
  });

  // ITU-T G.711, scaled to 16 bit: quietest codes, and loudest of either sign.
  test.each([
    ['A-law', 6, { 0xd5: 8, 0x55: -8, 0xaa: 32256, 0x2a: -32256 }],
    ['µ-law', 7, { 0xff: 0, 0x80: 32124, 0x00: -32124, 0xfe: 8 }],
  ])('%s', (_, tag, codes) => {
    const body = Object.keys(codes).map(Number);
    const wav = riff([fmt({ tag, bits: 8 }), { id: 'data', body }]);
    const expected = Object.values(codes).map((value) => value / 32768);
    expect(mono(wav).map((value) => value + 0)).toEqual(expected);
  });

  test('big-endian RIFX does not change the bytes it is given', () => {
    const body = Buffer.from(pcm16(VALUES)).swap16();
    const wav = Buffer.from(riff([fmt({}, true), { id: 'data', body }], 'RIFX', true));
    const before = wav.toString('hex');
    expect(mono(wav)).toEqual(EXPECTED);
    expect(wav.toString('hex')).toBe(before);
    const body24 = [0x80, 0, 0, 0, 0, 1];
    const wav24 = riff([fmt({ bits: 24 }, true), { id: 'data', body: body24 }], 'RIFX', true);
    expect(mono(wav24)).toEqual([-1, 2 ** -23]);
  });

  test('channels are taken apart, an incomplete last frame is dropped', () => {
    const body = pcm16([1, 2, 3, 4, 5, 6, 7].map((value) => value * 1024));
    const wav = decodeWav(riff([fmt({ channels: 3 }), { id: 'data', body }]));
    const scaled = wav.samples.map((channel) => Array.from(channel, (value) => value * 32));
    expect(scaled).toEqual([
      [1, 4],
      [2, 5],
      [3, 6],
    ]);
  });

  test('bytes at an odd address', () => {
    const wav = riff([fmt(), { id: 'data', body: pcm16(VALUES) }]);
    const shifted = new Uint8Array(wav.length + 1);
    shifted.set(wav, 1);
    expect(mono(shifted.subarray(1))).toEqual(EXPECTED);
  });

  test('a real recording: 11 s at 16 kHz with a LIST chunk before the data', () => {
    const { samples, sampleRate } = decodeWav(readFileSync(speechPath()));
    expect(sampleRate).toBe(16000);
    expect(samples).toHaveLength(1);
    expect(samples[0].length).toBe(176000);
    const peak = samples[0].reduce((a, b) => Math.max(a, Math.abs(b)));
    expect(peak).toBeGreaterThan(0.5);
    expect(peak).toBeLessThanOrEqual(1);
  });
});

describe('sizes that lie', () => {
  const data = (size?: number): Chunk => ({ id: 'data', body: pcm16(VALUES), size });

  test.each([
    ['zero', riff([fmt(), data(0)])],
    ['0xFFFFFFFF', riff([fmt(), data(0xffffffff)])],
    ['100 bytes too long', riff([fmt(), data(VALUES.length * 2 + 100)])],
    ['a chunk of odd length before', riff([fmt(), list(7), data()])],
    ['an odd chunk without its pad byte', riff([fmt(), list(7, true), data()])],
    [
      'many chunks before',
      riff([list(4), fmt(), list(0), list(3), { id: 'fact', body: [1] }, data()]),
    ],
    ['data before the format', riff([data(), fmt()])],
    ['chunks behind', riff([fmt(), data(), list(9), list(2)])],
  ])('%s', (_, wav) => {
    expect(mono(wav)).toEqual(EXPECTED);
  });

  test('trailing junk and a wrong RIFF size do not matter', () => {
    const wav = riff([fmt(), data()]);
    const junk = new Uint8Array(wav.length + 57).fill(0x7f);
    junk.set(wav);
    junk.set([1, 0, 0, 0], 4);
    expect(mono(junk)).toEqual(EXPECTED);
  });

  test('a length of 0 is true when chunks follow, or nothing', () => {
    const empty: Chunk = { id: 'data', body: [] };
    expect(mono(riff([fmt(), empty]))).toEqual([]);
    expect(mono(riff([fmt(), empty, list(20), list(5)]))).toEqual([]);
  });

  test('RF64 keeps the data length in its own chunk', () => {
    const ds64 = Buffer.alloc(28);
    ds64.writeBigUInt64LE(BigInt(VALUES.length * 2), 8);
    const wav = riff([{ id: 'ds64', body: ds64 }, fmt(), data(0xffffffff), list(8)], 'RF64');
    expect(mono(wav)).toEqual(EXPECTED);
  });
});

describe('what is refused', () => {
  const data: Chunk = { id: 'data', body: pcm16(VALUES) };
  const good = riff([fmt(), data]);

  test.each<[string, Uint8Array, RegExp]>([
    ['an empty file', new Uint8Array(), /empty/],
    ['a truncated container header', good.subarray(0, 10), /RIFF\/WAVE header/],
    ['another RIFF form', Buffer.from('RIFF\x04\0\0\0AVI LIST'), /Not a WAV file/],
    ['no format chunk', riff([data]), /no complete 'fmt ' chunk/],
    ['a truncated format chunk', good.subarray(0, 30), /truncated: 10 bytes/],
    ['no data chunk', good.subarray(0, 40), /no 'data' chunk/],
    ['no channels', riff([fmt({ channels: 0 }), data]), /0 channels/],
    ['65535 channels', riff([fmt({ channels: 65535 }), data]), /65535 channels/],
    ['a rate of 0', riff([fmt({ sampleRate: 0 }), data]), /0 Hz/],
    ['0-bit PCM', riff([fmt({ bits: 0 }), data]), /PCM of 0 bit/],
    ['16-bit float', riff([fmt({ tag: 3 }), data]), /float of 16 bit/],
    ['MS ADPCM', riff([fmt({ tag: 2, bits: 4 }), data]), /Microsoft ADPCM.*PCM of 8 to 32 bit/],
    ['an unknown codec', riff([fmt({ tag: 0x1234 }), data]), /0x1234.*ffmpeg/],
  ])('%s', (_, wav, message) => {
    expect(() => decodeWav(wav)).toThrow(AudioError);
    expect(() => decodeWav(wav)).toThrow(message);
  });
});

describe('encodeWav', () => {
  const samples = [Float32Array.from(EXPECTED), Float32Array.from(EXPECTED).reverse()];

  test('16 bit survives a round trip, and wavefile reads it', () => {
    const bytes = encodeWav({ samples, sampleRate: 44100 });
    const { samples: decoded, sampleRate } = decodeWav(bytes);
    expect(sampleRate).toBe(44100);
    expect(decoded).toEqual(samples);
    const peer = new wavefile.WaveFile(bytes).getSamples() as unknown as Float64Array[];
    expect(Array.from(peer[0])).toEqual(VALUES);
  });

  test('16 bit clips', () => {
    const bytes = encodeWav({ samples: [Float32Array.of(2, -2, Infinity)], sampleRate: 8000 });
    expect(mono(bytes)).toEqual([32767 / 32768, -1, 32767 / 32768]);
  });

  test.each([1, 2, 3])('float survives as it is, %i channels', (channels) => {
    const signals = Array.from({ length: channels }, (_, c) => Float32Array.of(c, 1.5, -0.1));
    const bytes = encodeWav({ samples: signals, sampleRate: 24000 }, { depth: '32f' });
    expect(decodeWav(bytes)).toEqual({ samples: signals, sampleRate: 24000 });
  });

  test('no samples', () => {
    const empty = { samples: [new Float32Array()], sampleRate: 16000 };
    expect(decodeWav(encodeWav(empty))).toEqual(empty);
  });

  test.each([
    ['no channels', [], 16000, /channels/],
    ['unequal channels', [new Float32Array(2), new Float32Array(3)], 16000, /equally long/],
    ['a broken rate', [new Float32Array(2)], 44100.5, /sample rate/],
    ['a rate of 0', [new Float32Array(2)], 0, /sample rate/],
    ['NaN', [Float32Array.of(0, NaN)], 16000, /NaN/],
  ])('refuses %s', (_, channels, sampleRate, message) => {
    expect(() => encodeWav({ samples: channels, sampleRate })).toThrow(AudioError);
    expect(() => encodeWav({ samples: channels, sampleRate })).toThrow(message);
  });
});
