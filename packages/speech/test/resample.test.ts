import { AudioError } from '@mlx-runners/mlx-core/errors';
import { readTensorFixture } from '@mlx-runners/test-fixtures';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resample } from '../src/index.js';

const { tensors } = readTensorFixture('features.safetensors');
const fixture = (name: string) => tensors.get(name)!.data as Float32Array;

const tone = (frequency: number, rate: number, length: number) =>
  Float32Array.from({ length }, (_, n) => Math.sin((2 * Math.PI * frequency * n) / rate));

/** Largest difference, apart from `margin` samples at either end. */
function largestError(actual: Float32Array, expected: Float32Array, margin: number): number {
  const end = Math.min(actual.length, expected.length) - margin;
  let error = 0;
  for (let i = margin; i < end; i++) error = Math.max(error, Math.abs(actual[i] - expected[i]));
  return error;
}

const rates = fc.constantFrom(8000, 11025, 16000, 22050, 24000, 32000, 44100, 44101, 48000, 96000);

describe('against references (chirps up to 0.9 Nyquist, with noise over the whole band)', () => {
  // Reached: 5.2e-4, 1.0e-4 and 4.0e-4; at the very ends 1.4e-3 at most.
  test.each([44100, 48000, 8000])('soxr HQ, %i Hz to 16 kHz', (rate) => {
    const actual = resample(fixture(`chirp_${rate}`), rate, 16000);
    const expected = fixture(`to16k_soxr_${rate}`);
    expect(Math.abs(actual.length - expected.length)).toBeLessThanOrEqual(1);
    expect(largestError(actual, expected, 100)).toBeLessThan(1e-3);
    expect(largestError(actual, expected, 0)).toBeLessThan(2e-3);
  });

  // resample_poly's default filter is short and falls off early, so only the chirp's lower half
  // (below 3.6 kHz) can agree. Reached: 5.5e-3, 5.3e-3 and 9.8e-3, most of it noise above the chirp.
  test.each([44100, 48000, 8000])('scipy resample_poly, %i Hz to 16 kHz', (rate) => {
    const expected = fixture(`to16k_poly_${rate}`);
    const actual = resample(fixture(`chirp_${rate}`), rate, 16000);
    expect(actual.length).toBe(expected.length);
    const half = expected.length / 2;
    const error = largestError(actual.subarray(0, half), expected.subarray(0, half), 20);
    expect(error).toBeLessThan(1.2e-2);
  });
});

describe('properties', () => {
  test('the result lasts as long as the input: ceil(n · to / from) samples', () => {
    fc.assert(
      fc.property(fc.nat(3000), rates, rates, (length, from, to) => {
        const expected =
          from === to ? length : Number((BigInt(length * to) + BigInt(from - 1)) / BigInt(from));
        expect(resample(new Float32Array(length), from, to).length).toBe(expected);
      }),
    );
  });

  test('a constant stays as it is, between any two rates', () => {
    fc.assert(
      fc.property(rates, rates, (from, to) => {
        const out = resample(new Float32Array(from).fill(0.5), from, to);
        const constant = new Float32Array(out.length).fill(0.5);
        expect(largestError(out, constant, Math.floor(out.length / 4))).toBeLessThan(1e-6);
      }),
      { numRuns: 30 },
    );
  });

  test('linear', () => {
    const samples = fc.float32Array({
      minLength: 500,
      maxLength: 500,
      min: -1,
      max: 1,
      noNaN: true,
    });
    fc.assert(
      fc.property(samples, samples, rates, rates, (a, b, from, to) => {
        const sum = resample(
          a.map((value, i) => value - 2 * b[i]),
          from,
          to,
        );
        const right = resample(b, from, to);
        const parts = resample(a, from, to).map((value, i) => value - 2 * right[i]);
        expect(largestError(sum, parts, 0)).toBeLessThan(1e-5);
      }),
      { numRuns: 20 },
    );
  });

  test.each([
    [44100, 16000, 1000],
    [44100, 16000, 7200],
    [48000, 16000, 7300],
    [8000, 16000, 3600],
    [22050, 16000, 7000],
    [16000, 44100, 7200],
    [44101, 16000, 5000],
    [16000, 17000, 7200],
  ])('%i → %i Hz keeps a tone of %i Hz, without delay', (from, to, frequency) => {
    const out = resample(tone(frequency, from, from / 2), from, to);
    expect(largestError(out, tone(frequency, to, out.length), to / 20)).toBeLessThan(1e-5);
  });

  // What aliases would land within the band; 100 dB down is 1e-5.
  test.each([
    [44100, 16000, 8001],
    [44100, 16000, 15000],
    [48000, 16000, 8100],
    [48000, 16000, 23000],
    [22050, 16000, 9000],
    [16000, 8000, 4010],
    [192000, 16000, 90000],
  ])('%i → %i Hz removes a tone of %i Hz', (from, to, frequency) => {
    const out = resample(tone(frequency, from, from / 2), from, to);
    expect(largestError(out, new Float32Array(out.length), to / 20)).toBeLessThan(1e-5);
  });

  test('making it faster adds nothing above the old band', () => {
    const out = resample(tone(3000, 8000, 8000), 8000, 48000);
    expect(largestError(out, tone(3000, 48000, out.length), 2400)).toBeLessThan(1e-5);
  });

  test('blocks leave no seams', () => {
    // 40 s: more than two blocks at either rate.
    const out = resample(tone(440, 44100, 44100 * 40), 44100, 16000);
    expect(largestError(out, tone(440, 16000, out.length), 800)).toBeLessThan(1e-4);
  });

  test('equal rates give back the samples', () => {
    const samples = tone(440, 16000, 100);
    expect(resample(samples, 16000, 16000)).toBe(samples);
  });
});

test.each([0, -1, 0.5, 16000.5, NaN, 999, 768_001, 2 ** 32 - 1])('refuses a rate of %d', (rate) => {
  const samples = new Float32Array(10);
  expect(() => resample(samples, rate, 16000)).toThrow(AudioError);
  expect(() => resample(samples, 16000, rate)).toThrow(/integer from 1000 to 768000/);
});
