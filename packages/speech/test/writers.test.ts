import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  formatTranscript,
  TRANSCRIPT_FORMATS,
  writeOutputs,
  type Segment,
  type Transcript,
  type TranscriptFormat,
} from '../src/index.js';

const segment = (
  start: number,
  end: number,
  text: string,
  more: Partial<Segment> = {},
): Segment => ({
  id: 0,
  seek: 0,
  start,
  end,
  text,
  tokens: [50364, 440],
  temperature: 0,
  avgLogprob: -0.25,
  compressionRatio: 1.5,
  noSpeechProb: 0.125,
  ...more,
});

const transcript = (duration: number, ...segments: Segment[]): Transcript => ({
  text: segments.map(({ text }) => text).join(''),
  language: 'en',
  duration,
  segments,
});

const speech = transcript(
  20,
  segment(0, 4.96, ' Ask not what your country can do for you.'),
  segment(14.5, 19.9996, ' Tom & "Jerry" <3 ', { id: 1, seek: 1450 }),
);

test('txt: one segment a line', () => {
  expect(formatTranscript(speech, 'txt')).toBe(
    'Ask not what your country can do for you.\nTom & "Jerry" <3\n',
  );
  expect(formatTranscript({ ...transcript(3), text: ' Only text.' }, 'txt')).toBe('Only text.\n');
  expect(formatTranscript(transcript(3), 'txt')).toBe('');
});

test('srt: numbers, commas, and pauses that stay', () => {
  expect(formatTranscript(speech, 'srt')).toBe(
    `1
00:00:00,000 --> 00:00:04,960
Ask not what your country can do for you.

2
00:00:14,500 --> 00:00:20,000
Tom & "Jerry" <3
`,
  );
});

test('vtt: header, dots and escapes', () => {
  expect(formatTranscript(speech, 'vtt')).toBe(
    `WEBVTT

00:00:00.000 --> 00:00:04.960
Ask not what your country can do for you.

00:00:14.500 --> 00:00:20.000
Tom &amp; "Jerry" &lt;3
`,
  );
});

test('json: the fields of verbose_json', () => {
  const words = [{ word: ' Ask', start: 0, end: 0.4, probability: 0.75 }];
  const timed = transcript(20, segment(0, 4.96, ' Ask', { words }), segment(5, 6, ' not'));
  const fields = {
    id: 0,
    seek: 0,
    tokens: [50364, 440],
    temperature: 0,
    avg_logprob: -0.25,
    compression_ratio: 1.5,
    no_speech_prob: 0.125,
  };
  expect(JSON.parse(formatTranscript(timed, 'json'))).toEqual({
    language: 'en',
    duration: 20,
    text: ' Ask not',
    segments: [
      { ...fields, start: 0, end: 4.96, text: ' Ask', words },
      { ...fields, start: 5, end: 6, text: ' not' },
    ],
    words,
  });
  expect(JSON.parse(formatTranscript(speech, 'json'))).not.toHaveProperty('words');
});

describe('cues', () => {
  const times = (text: string) =>
    [...text.matchAll(/^(\S+) --> (\S+)$/gm)].map(([, start, end]) => [start, end]);

  test('hours, and rounding that carries', () => {
    const long = transcript(
      400_000,
      segment(59.9994, 59.9996, 'a'),
      segment(3599.9999, 3600.0004, 'b'),
      segment(359_999.9999, 360_000.5, 'c'),
    );
    expect(times(formatTranscript(long, 'srt'))).toEqual([
      ['00:00:59,999', '00:01:00,000'],
      ['01:00:00,000', '01:00:00,000'],
      ['100:00:00,000', '100:00:00,500'],
    ]);
  });

  test('times that fall back, turn round or leave the audio', () => {
    const wild = transcript(
      70,
      segment(5, 3, 'a'),
      segment(1, 8, 'b'),
      segment(-2, NaN, 'c'),
      segment(60, 88, 'd'),
      segment(75, 80, 'e'),
    );
    expect(times(formatTranscript(wild, 'vtt'))).toEqual([
      ['00:00:05.000', '00:00:05.000'],
      ['00:00:05.000', '00:00:08.000'],
      ['00:00:05.000', '00:00:05.000'],
      ['00:01:00.000', '00:01:10.000'],
      ['00:01:10.000', '00:01:10.000'],
    ]);
  });

  test('text that would break a file', () => {
    const nasty = transcript(
      9,
      segment(0, 1, ' \n\n two\r\n\r\nlines \u2028\n'),
      segment(1, 2, ' \n '),
      segment(2, 3, '00:00:00,000 ---> 00:00:09,000\0'),
    );
    expect(formatTranscript(nasty, 'srt')).toBe(
      '1\n00:00:00,000 --> 00:00:01,000\ntwo\nlines\n\n' +
        '2\n00:00:02,000 --> 00:00:03,000\n00:00:00,000 -> 00:00:09,000\n',
    );
    expect(formatTranscript(nasty, 'vtt')).toContain('\n00:00:00,000 ---&gt; 00:00:09,000\n');
  });

  test('any transcript gives a file with as many cues as it has texts, in order', () => {
    const text = fc
      .array(
        fc.constantFrom('-', '->', '-->', '\n', '\r', ' ', '&', '<i>', 'a', '1', '\u2029', '\v'),
      )
      .map((parts) => parts.join(''));
    const time = fc.double({ min: -10, max: 5000 });
    const segments = fc.array(fc.tuple(time, time, text), { maxLength: 12 });
    fc.assert(
      fc.property(segments, fc.constantFrom<TranscriptFormat>('srt', 'vtt'), (parts, format) => {
        const input = transcript(4000, ...parts.map(([start, end, t]) => segment(start, end, t)));
        const content = formatTranscript(input, format);
        const blocks = content.split(/\n\n+/).filter((block) => block.includes(' --> '));
        const cues = parts.filter(([, , t]) => t.trim() !== '').length;
        expect(content.match(/-->/g)?.length ?? 0).toBe(cues);
        expect(blocks.length).toBe(cues);
        let previous = 0;
        for (const [from, to] of times(content)) {
          const [start, end] = [from, to].map((clock) => {
            const [, h, m, s, ms] = /^(\d\d+):([0-5]\d):([0-5]\d)[,.](\d{3})$/.exec(clock)!;
            return ((+h * 60 + +m) * 60 + +s) * 1000 + +ms;
          });
          expect(start).toBeGreaterThanOrEqual(previous);
          expect(end).toBeGreaterThanOrEqual(start);
          expect(end).toBeLessThanOrEqual(4_000_000);
          previous = start!;
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('writeOutputs', () => {
  const folder = () => mkdtempSync(join(tmpdir(), 'writers-'));

  test('writes every format into a new folder, and nothing else', async () => {
    const outputDir = join(folder(), 'new', 'deep');
    const formats = TRANSCRIPT_FORMATS;
    const paths = await writeOutputs(speech, { outputDir, baseName: 'talk.part1', formats });
    expect(paths).toEqual(formats.map((format) => join(outputDir, `talk.part1.${format}`)));
    expect(readdirSync(outputDir).sort()).toEqual(
      paths.map((path) => path.slice(outputDir.length + 1)).sort(),
    );
    for (const [i, path] of paths.entries()) {
      expect(readFileSync(path, 'utf8')).toBe(formatTranscript(speech, formats[i]));
    }
  });

  test('replaces an older file', async () => {
    const outputDir = folder();
    writeFileSync(join(outputDir, 'a.txt'), 'older and longer '.repeat(100));
    await writeOutputs(transcript(1, segment(0, 1, 'new')), {
      outputDir,
      baseName: 'a',
      formats: ['txt'],
    });
    expect(readFileSync(join(outputDir, 'a.txt'), 'utf8')).toBe('new\n');
  });

  test('a write that fails leaves nothing half-written behind', async () => {
    const outputDir = folder();
    mkdirSync(join(outputDir, 'a.srt'));
    const writing = writeOutputs(speech, { outputDir, baseName: 'a', formats: ['srt'] });
    await expect(writing).rejects.toThrow();
    expect(readdirSync(outputDir)).toEqual(['a.srt']);
  });

  test.each(['', '..', 'a/b', '../a'])('refuses %j as a file name', async (baseName) => {
    const writing = writeOutputs(speech, { outputDir: folder(), baseName, formats: ['txt'] });
    await expect(writing).rejects.toThrow(UsageError);
  });

  test('refuses an unknown format before it writes anything', async () => {
    const outputDir = folder();
    const formats = ['txt', 'doc'] as TranscriptFormat[];
    const writing = writeOutputs(speech, { outputDir, baseName: 'a', formats });
    await expect(writing).rejects.toThrow(/'doc'; there are txt, srt, vtt, json/);
    expect(readdirSync(outputDir)).toEqual([]);
    expect(() => formatTranscript(speech, 'toString' as TranscriptFormat)).toThrow(UsageError);
  });
});
