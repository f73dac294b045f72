import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AudioError } from '@mlx-runners/mlx-core/errors';
import {
  byteMutations,
  expectRefusal,
  fuzz,
  randomNumbers,
  type Reading,
} from '@mlx-runners/test-fixtures';
import wavefile from 'wavefile';
import { afterAll, describe, expect, test } from 'vitest';
import { decodeWav, loadAudio } from '../src/index.js';
import { bytesOf, fmt, pcm16, riff, type Chunk } from './wav-bytes.js';

const folder = mkdtempSync(join(tmpdir(), 'speech-fuzz-'));
const path = join(folder, 'audio.wav');
afterAll(() => rmSync(folder, { recursive: true }));

const random = randomNumbers(5);
const noise = Float32Array.from({ length: 24 }, () => random() - 0.5);
const bytes = Uint8Array.from(noise, (x) => 128 + 100 * x);
const pcm: Chunk = { id: 'data', body: pcm16([...noise].map((x) => 32768 * x)) };
const list: Chunk = { id: 'LIST', body: Buffer.from('INFOISFT\x03\0\0\0us\0') };

const files: Record<string, Uint8Array> = {
  '8 bit': riff([fmt({ bits: 8 }), { id: 'data', body: bytes }]),
  '16 bit, stereo, after another chunk': riff([fmt({ channels: 2 }), list, pcm]),
  '24 bit': riff([fmt({ bits: 24 }), { id: 'data', body: bytes }]),
  '32 bit': riff([fmt({ bits: 32 }), { id: 'data', body: bytes }]),
  '32 bit float': riff([fmt({ tag: 3, bits: 32 }), { id: 'data', body: bytesOf(noise) }]),
  '64 bit float': riff([
    fmt({ tag: 3, bits: 64 }),
    { id: 'data', body: bytesOf(Float64Array.from(noise)) },
  ]),
  'A-law': riff([fmt({ tag: 6, bits: 8, sampleRate: 8000 }), { id: 'data', body: bytes }]),
  'µ-law': riff([fmt({ tag: 7, bits: 8, sampleRate: 44100 }), { id: 'data', body: bytes }]),
  extensible: riff([fmt({ subformat: 1 }), pcm]),
  'big-endian': riff([fmt({}, true), pcm], 'RIFX', true),
  RF64: riff([{ id: 'ds64', body: Buffer.alloc(28, 1) }, fmt(), pcm], 'RF64'),
};

/** Decodes to no more samples than there are bytes, all of them finite, or refuses. */
async function read(file: Buffer): Promise<Reading> {
  writeFileSync(path, file);
  try {
    const { samples, duration } = await loadAudio(path);
    // A rate of 1 kHz gives 16 samples for each one.
    expect(samples.length).toBeLessThanOrEqual(17 * file.length);
    expect(Math.abs(samples.length - duration * 16_000)).toBeLessThanOrEqual(1);
    expect(samples.every(Number.isFinite)).toBe(true);
    return 'read';
  } catch (error) {
    expectRefusal(error, AudioError, path);
    return 'refused';
  }
}

test('damaged WAV files are decoded or refused', async () => {
  await fuzz({
    name: 'wav',
    cases: 600,
    inputs: Object.values(files).map((file) => ({ 'audio.wav': Buffer.from(file) })),
    mutationsOf: () => byteMutations,
    read: (damaged) => read(damaged['audio.wav']),
  });
});

describe('undamaged files have the samples that wavefile reads', () => {
  // wavefile gives integers of the file's own depth.
  const fullScale: Record<string, number> = {
    '8': 128,
    '16': 2 ** 15,
    '24': 2 ** 23,
    '32': 2 ** 31,
  };

  // Its codecs make our tables, and it takes RF64's size from ds64 alone.
  const comparable = Object.keys(files).filter((name) => !/law|RF64/.test(name));

  test.each(comparable)('%s', (name) => {
    const wav = new wavefile.WaveFile(Uint8Array.from(files[name]));
    const scale = fullScale[wav.bitDepth] ?? 1;
    const channels = wav.getSamples(false, Float64Array) as unknown as
      Float64Array[] | Float64Array;
    const expected = (channels instanceof Float64Array ? [channels] : [...channels]).map(
      (channel) => Float32Array.from(channel, (x) => (wav.bitDepth === '8' ? x - 128 : x) / scale),
    );
    expect(decodeWav(files[name]).samples).toEqual(expected);
  });
});

test('a megabyte of empty chunks takes no longer than it must', () => {
  const file = new Uint8Array(2 ** 20);
  file.set(riff([]));
  for (let at = 12; at + 8 <= file.length; at += 8) file.set(Buffer.from('data'), at);
  expect(() => decodeWav(file)).toThrow(AudioError);
});

test.each([
  [
    'a NaN sample',
    [fmt({ tag: 3, bits: 32 }), { id: 'data', body: bytesOf(Float32Array.of(0, NaN)) }],
  ],
  ['a rate of 1 Hz', [fmt({ sampleRate: 1 }), pcm]],
])('the refusal of %s names the file', async (_, chunks) => {
  expect(await read(Buffer.from(riff(chunks)))).toBe('refused');
});
