import { pinkNoise, randomNumbers, silence, sine, whiteNoise } from '@mlx-runners/test-fixtures';
import { describe, expect, test } from 'vitest';

function level(samples: Float32Array): number {
  return 10 * Math.log10(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
}

/** Mean power at 20 frequencies from `low` to `high` Hz, by Goertzel's recurrence. */
function bandPower(samples: Float32Array, sampleRate: number, low: number, high: number): number {
  let power = 0;
  for (let k = 0; k < 20; k++) {
    const frequency = low + ((high - low) * k) / 20;
    const factor = 2 * Math.cos((2 * Math.PI * frequency) / sampleRate);
    let previous = 0;
    let last = 0;
    for (const x of samples) [previous, last] = [last, x + factor * last - previous];
    power += previous * previous + last * last - factor * previous * last;
  }
  return power / 20;
}

test('the random numbers are mulberry32', () => {
  const random = randomNumbers(1);
  expect([random(), random()].map((x) => x * 2 ** 32)).toEqual([2693262067, 11749833]);
});

test('silence is zeros of the length asked for', () => {
  expect(silence(0.5)).toEqual(new Float32Array(8000));
  expect(silence(0.5, { sampleRate: 44100 })).toHaveLength(22050);
  expect(silence(0)).toHaveLength(0);
  expect(() => silence(-1)).toThrow(RangeError);
});

describe('levels', () => {
  test.each([-60, -40, -20])('%d dBFS', (dbfs) => {
    expect(level(sine(1, 440, { dbfs }))).toBeCloseTo(dbfs, 3);
    expect(level(whiteNoise(1, { seed: 3, dbfs }))).toBeCloseTo(dbfs, 3);
    expect(level(pinkNoise(1, { seed: 3, dbfs }))).toBeCloseTo(dbfs, 3);
  });

  test('nothing leaves [-1, 1]', () => {
    for (const samples of [sine(1, 440, { dbfs: 6 }), pinkNoise(1, { seed: 1, dbfs: 6 })]) {
      expect(samples.every((x) => Math.abs(x) <= 1)).toBe(true);
      expect(samples).toContain(1);
    }
  });
});

test('a seed gives the same noise again, another seed other noise', () => {
  for (const noise of [whiteNoise, pinkNoise]) {
    expect(noise(0.1, { seed: 7 })).toEqual(noise(0.1, { seed: 7 }));
    expect(noise(0.1, { seed: 8 })).not.toEqual(noise(0.1, { seed: 7 }));
  }
});

test('a sine has its frequency', () => {
  const tone = sine(1, 100);
  expect(bandPower(tone, 16000, 100, 100)).toBeGreaterThan(1e6 * bandPower(tone, 16000, 200, 200));
});

test('white noise is flat, pink noise falls by 3 dB per octave', () => {
  const fall = (samples: Float32Array, low: number, high: number) =>
    10 *
    Math.log10(bandPower(samples, 16000, low, 2 * low) / bandPower(samples, 16000, high, 2 * high));
  const white = whiteNoise(4, { seed: 5 });
  const pink = pinkNoise(4, { seed: 5 });
  for (const [low, octaves] of [
    [6.25, 9],
    [200, 4],
  ] as const) {
    expect(Math.abs(fall(white, low, 3200))).toBeLessThan(4);
    expect(Math.abs(fall(pink, low, 3200) - 3 * octaves)).toBeLessThan(4);
  }
});
