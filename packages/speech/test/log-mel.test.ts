import { mx } from '@mlx-runners/mlx-core';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { readTensorFixture } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';
import { logMelSpectrogram, melFilters } from '../src/index.js';

const { tensors } = readTensorFixture('features.safetensors');
const fixture = (name: string) => tensors.get(name)!.data as Float32Array;

function largestDifference(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(actual.length).toBe(expected.length);
  let largest = 0;
  for (let i = 0; i < actual.length; i++) {
    largest = Math.max(largest, Math.abs(actual[i] - expected[i]));
  }
  return largest;
}

describe('mel filters', () => {
  test.each([
    ['mel_filters_80', 400, 80],
    ['mel_filters_128', 400, 128],
    ['mel_filters_257x128', 512, 128],
  ])('%s', (name, nFft, nMels) => {
    const filters = melFilters(16000, nFft, nMels);
    expect(largestDifference(filters, fixture(name))).toBeLessThan(1e-7);
  });

  test('HTK scale without normalisation peaks at 1 where the scale says', () => {
    // 4 bands to 8 kHz: 2840.02 mel in 5 steps; the third peak lies at 1704.01 mel = 2475.3 Hz.
    const filters = melFilters(16000, 16000, 4, { scale: 'htk', norm: 'none' });
    const band = Array.from({ length: 8001 }, (_, bin) => filters[bin * 4 + 2]);
    const peak = band.indexOf(Math.max(...band));
    expect(peak).toBe(Math.round(700 * (10 ** (1704.0139 / 2595) - 1)));
    expect(band[peak]).toBeCloseTo(1, 3);
  });

  test('fMin and fMax bound the filters', () => {
    const filters = melFilters(16000, 400, 10, { fMin: 1000, fMax: 4000 });
    const used = Array.from({ length: 201 }, (_, bin) => bin).filter((bin) =>
      filters.subarray(bin * 10, bin * 10 + 10).some((value) => value > 0),
    );
    expect([used[0], used.at(-1)]).toEqual([26, 99]);
  });
});

describe('log-mel', () => {
  // Reached on the CPU: 5.7e-6 and 2.2e-5.
  test.each([80, 128])('%i bands equal those of transformers', (nMels) => {
    const samples = fixture('wav');
    const expected = fixture(`whisper${nMels}`);
    const frames = expected.length / nMels;
    using features = logMelSpectrogram(samples, { nMels, padding: 480000 - samples.length });
    expect(features.shape).toEqual([3000, nMels]);
    const actual = features.dataSync() as Float32Array;
    const transposed = Float32Array.from(expected, (_, i) => {
      return expected[(i % nMels) * frames + Math.floor(i / nMels)];
    });
    const used = actual.subarray(0, frames * nMels);
    expect(largestDifference(used, transposed)).toBeLessThan(1e-3);
    const floor = fixture(`whisper${nMels}_floor`)[0];
    const rest = actual.subarray(frames * nMels);
    expect(largestDifference(rest, new Float32Array(rest.length).fill(floor))).toBeLessThan(1e-4);
  });

  // 0.5 sin 440 Hz + 0.1 sin 3 kHz, one second, padded to 30 s (transformers' extractor).
  test.each([
    [80, -0.561796, 11, 1.4382038, [1.337244, 1.350234, 1.348738], -0.4115724],
    [128, -0.514646, 18, 1.4853541, [0.989656, 0.433088, -0.514646], -0.3908637],
  ])('two tones, %i bands', (nMels, floor, loudest, peak, start, mean) => {
    const samples = Float32Array.from({ length: 16000 }, (_, n) => {
      const phase = (2 * Math.PI * n) / 16000;
      return 0.5 * Math.sin(440 * phase) + 0.1 * Math.sin(3000 * phase);
    });
    using features = logMelSpectrogram(samples, { nMels, padding: 464000 });
    const data = features.dataSync() as Float32Array;
    const frame = data.subarray(50 * nMels, 51 * nMels);
    for (let band = 0; band < 5; band++) expect(frame[band]).toBeCloseTo(floor, 4);
    expect(frame.indexOf(Math.max(...frame))).toBe(loudest);
    expect(frame[loudest]).toBeCloseTo(peak, 4);
    for (const [t, value] of start.entries()) expect(data[t * nMels + 10]).toBeCloseTo(value, 4);
    const second = data.subarray(0, 100 * nMels);
    expect(second.reduce((sum, value) => sum + value, 0) / second.length).toBeCloseTo(mean, 4);
  });

  test('silence lies at the floor of 10⁻¹⁰', () => {
    using features = logMelSpectrogram(new Float32Array(1600));
    expect(features.shape).toEqual([10, 80]);
    expect(new Set(features.dataSync() as Float32Array)).toEqual(new Set([-1.5]));
  });

  test.each([
    [0, 0, 0],
    [159, 0, 0],
    [160, 0, 1],
    [1, 480000, 3000],
  ])('%i samples and %i of padding are %i frames', (length, padding, frames) => {
    using features = logMelSpectrogram(new Float32Array(length).fill(0.1), { padding });
    expect(features.shape).toEqual([frames, 80]);
    expect(features.dataSync().every(Number.isFinite)).toBe(true);
  });

  test('long audio is worked off in blocks, with one maximum for the whole', () => {
    const tone = (n: number, level: number) => level * Math.sin(n * 0.17);
    const samples = Float32Array.from({ length: 16000 * 90 }, (_, n) => {
      return tone(n, n < 16000 ? 1 : 1e-5);
    });
    using features = logMelSpectrogram(samples);
    const data = features.dataSync() as Float32Array;
    const highest = data.reduce((a, b) => Math.max(a, b));
    expect(data[data.length - 1]).toBeCloseTo(highest - 2, 5);
  });

  test('arrays made on the way are freed', () => {
    const before = mx.memory().arrays;
    using features = logMelSpectrogram(new Float32Array(3200));
    expect(features.shape).toEqual([20, 80]);
    expect(mx.memory().arrays).toBe(before + 1);
  });

  test.each([-1, 0.5, NaN])('refuses a padding of %d', (padding) => {
    expect(() => logMelSpectrogram(new Float32Array(160), { padding })).toThrow(UsageError);
  });
});
