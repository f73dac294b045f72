import { describe, expect, it } from 'vitest';
import { compressionRatio } from '../src/decode.js';
import { frameVolumes, isSteady, spokenEnd, trimSilence } from '../src/loudness.js';
import { cutSegments } from '../src/transcribe.js';

const begin = 100;
const at = (seconds: number): number => begin + Math.round(seconds / 0.02);
const window = { start: 6000, end: 9000 };

describe('cutSegments', () => {
  it('cuts at pairs of timestamps and goes on at the last pair', () => {
    const tokens = [at(0), 1, 2, at(4), at(5), 3, at(8.5), at(8.5), 4];
    expect(cutSegments(tokens, begin, window)).toEqual({
      pieces: [
        { start: 60, end: 64, tokens: [at(0), 1, 2, at(4)] },
        { start: 65, end: 68.5, tokens: [at(5), 3, at(8.5)] },
      ],
      advance: 850,
    });
  });

  it('takes a single timestamp at the end as the end of speech in the window', () => {
    const tokens = [at(0), 1, at(4), at(4), 2, at(6)];
    const { pieces, advance } = cutSegments(tokens, begin, window);
    expect(pieces.map(({ start, end }) => [start, end])).toEqual([
      [60, 64],
      [64, 66],
    ]);
    expect(advance).toBe(3000);
  });

  it('makes one segment where there is no pair, up to the last timestamp or the whole window', () => {
    expect(cutSegments([at(0), 1, 2, at(4)], begin, window)).toEqual({
      pieces: [{ start: 60, end: 64, tokens: [at(0), 1, 2, at(4)] }],
      advance: 3000,
    });
    const short = { start: 6000, end: 6250 };
    const { pieces, advance } = cutSegments([1, 2], begin, short);
    expect([pieces[0].start, pieces[0].end, advance]).toEqual([60, 62.5, 250]);
  });

  it('always goes on', () => {
    expect(cutSegments([at(0), at(0)], begin, window).advance).toBe(3000);
    expect(cutSegments([], begin, window).advance).toBe(3000);
  });
});

describe('compressionRatio', () => {
  it('is high for repetitions and low for speech', () => {
    expect(compressionRatio('again and '.repeat(40))).toBeGreaterThan(2.4);
    const speech =
      'Ask not what your country can do for you, ask what you can do for your country.';
    expect(compressionRatio(speech)).toBeLessThan(2.4);
  });
});

describe('loudness', () => {
  const levels = new Float32Array(1000).map((_, i) => (i < 300 || i >= 800 ? -60 : (i % 7) - 3));
  const whole = { start: 0, end: 1000 };

  it('tells steady sound from changing sound', () => {
    expect(isSteady(levels, whole)).toBe(false);
    expect(isSteady(levels, { start: 0, end: 250 })).toBe(true);
  });

  it('measures volumes in dBFS, one per frame of 10 ms', () => {
    const samples = new Float32Array(1600).fill(0.1, 0, 800);
    const volumes = frameVolumes(samples);
    expect(volumes.length).toBe(10);
    expect(volumes[2]).toBeCloseTo(-20, 4);
    expect(volumes[8]).toBe(-200);
  });

  it('takes a few frames of sound before silence for the end of another segment', () => {
    const tail = levels.slice();
    tail.fill(0, 100, 103);
    expect(trimSilence(tail, { start: 100, end: 700 }, whole)).toEqual({ start: 300, end: 700 });
    tail.fill(0, 100, 110);
    expect(trimSilence(tail, { start: 100, end: 700 }, whole)).toEqual({ start: 100, end: 700 });
  });

  it('moves the times of a segment to where its sound is', () => {
    expect(trimSilence(levels, { start: 0, end: 1000 }, whole)).toEqual({ start: 300, end: 800 });
    expect(trimSilence(levels, { start: 280, end: 700 }, whole)).toEqual({ start: 280, end: 700 });
    expect(trimSilence(levels, { start: 280, end: 820 }, whole)).toEqual({ start: 280, end: 820 });
    expect(trimSilence(levels, { start: 850, end: 990 }, whole)).toEqual({ start: 850, end: 990 });
  });

  describe('a text that can not have been spoken in its time', () => {
    const segment = { start: 300, end: 400 };
    const ends = (volumes: Float32Array, characters: number, limit = 1000): number =>
      spokenEnd(volumes, segment, characters, limit, whole);

    it('goes on to an ordinary pace, the end of the sound or the next segment', () => {
      expect(ends(levels, 30)).toBe(500);
      expect(ends(levels, 300)).toBe(800);
      expect(ends(levels, 300, 650)).toBe(650);
    });

    it('goes on over short silence, and ends before a pause', () => {
      const gapped = levels.slice();
      gapped.fill(-60, 420, 440);
      expect(ends(gapped, 300)).toBe(800);
      gapped.fill(-60, 420, 460);
      expect(ends(gapped, 300)).toBe(420);
      expect(ends(new Float32Array(1000).fill(-60, 400), 300)).toBe(400);
    });

    it('is none of up to 25 characters a second', () => {
      expect(ends(levels, 25)).toBe(400);
      expect(ends(levels, 26)).toBe(474);
    });
  });
});
