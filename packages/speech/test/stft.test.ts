import { mx } from '@mlx-runners/mlx-core';
import { ShapeError } from '@mlx-runners/mlx-core/errors';
import { expect, test } from 'vitest';
import { frameCount, hannWindow, powerSpectrogram, type StftOptions } from '../src/index.js';

const noise = (length: number) =>
  Float32Array.from({ length }, (_, n) => Math.sin(n * n * 0.37 + 1) * 0.5);

const options = (more: Partial<StftOptions> = {}): StftOptions => ({
  nFft: 32,
  hopLength: 8,
  window: hannWindow(32, 'periodic'),
  padding: 'reflect',
  ...more,
});

/** The definition, in double precision: |Σ w[n] x[n] e^(−2πi k n / N)|² of every frame. */
function reference(samples: Float32Array, { nFft, hopLength, window, padding }: StftOptions) {
  const half = padding === 'none' ? 0 : nFft / 2;
  const at = (index: number) => {
    if (padding !== 'reflect') return samples[index] ?? 0;
    const last = samples.length - 1;
    let i = Math.abs(index);
    while (i > last) i = Math.abs(2 * last - i);
    return samples[i];
  };
  const offset = Math.floor((nFft - window.length) / 2);
  const rows: number[] = [];
  for (let start = -half; start + nFft <= samples.length + half; start += hopLength) {
    for (let k = 0; k <= nFft / 2; k++) {
      let re = 0;
      let im = 0;
      for (let n = 0; n < window.length; n++) {
        const value = window[n] * at(start + offset + n);
        re += value * Math.cos((2 * Math.PI * k * (offset + n)) / nFft);
        im += value * Math.sin((2 * Math.PI * k * (offset + n)) / nFft);
      }
      rows.push(re * re + im * im);
    }
  }
  return rows;
}

test('windows', () => {
  expect(Array.from(hannWindow(4, 'periodic'))).toEqual([0, 0.5, 1, 0.5]);
  const symmetric = hannWindow(5, 'symmetric');
  expect(Array.from(symmetric, (value) => Math.round(value * 1e6) / 1e6)).toEqual([
    0, 0.5, 1, 0.5, 0,
  ]);
});

test.each<[string, number, Partial<StftOptions>]>([
  ['mirrored', 200, {}],
  ['mirrored more than once', 10, {}],
  ['zeros around', 203, { padding: 'zero' }],
  ['nothing around', 203, { padding: 'none' }],
  ['a short window in the middle', 200, { window: hannWindow(20, 'symmetric'), padding: 'zero' }],
  ['a short window of odd length', 200, { window: hannWindow(21, 'symmetric') }],
])('the power spectrogram is what its definition says: %s', (_, length, more) => {
  const samples = noise(length);
  const expected = reference(samples, options(more));
  const frames = frameCount(length, options(more));
  expect(frames).toBe(expected.length / 17);
  using power = powerSpectrogram(samples, options(more));
  expect(power.shape).toEqual([frames, 17]);
  const actual = power.dataSync() as Float32Array;
  for (const [i, value] of expected.entries()) expect(actual[i]).toBeCloseTo(value, 4);
});

test('blocks are joined, and the projection sees each of them', () => {
  const samples = noise(8 * 7000);
  using whole = powerSpectrogram(samples, options());
  using alone = powerSpectrogram(
    samples.subarray(3500 * 8 - 16, 3500 * 8 + 16),
    options({ padding: 'none' }),
  );
  using within = mx.slice(whole, [3500, 0], [3501, 17]);
  expect(within.dataSync()).toEqual(alone.dataSync());

  const rows = [3000, 3000, 1001];
  const seen: (number | undefined)[] = [];
  using summed = powerSpectrogram(samples, options(), (power) => {
    seen.push(power.shape[0]);
    return mx.sum(power, [1], true);
  });
  expect(seen).toEqual(rows);
  expect(summed.shape).toEqual([7001, 1]);
  using expected = mx.sum(whole, [1], true);
  expect(summed.dataSync()).toEqual(expected.dataSync());
});

test('too short for a frame', () => {
  using power = powerSpectrogram(noise(31), options({ padding: 'none' }));
  expect(power.shape).toEqual([0, 17]);
  using empty = powerSpectrogram(new Float32Array(), options());
  expect(empty.dataSync()).toEqual(new Float32Array(17));
});

test('arrays made on the way are freed', () => {
  const before = mx.memory().arrays;
  using power = powerSpectrogram(noise(1000), options());
  expect(power.ndim).toBe(2);
  expect(mx.memory().arrays).toBe(before + 1);
});

test('refuses a window that is too long, and frames that are not there', () => {
  const long = options({ window: hannWindow(33, 'periodic') });
  expect(() => powerSpectrogram(noise(100), long)).toThrow(ShapeError);
  expect(() => powerSpectrogram(noise(100), options(), undefined, 100)).toThrow(/fewer than 100/);
});
