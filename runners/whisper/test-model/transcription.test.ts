import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { AbortedError } from '@mlx-runners/mlx-core';
import {
  decodeWav,
  encodeWav,
  formatTranscript,
  resample,
  type AudioInput,
  type Transcript,
} from '@mlx-runners/speech';
import { pinkNoise, silence, speechPath, whiteNoise } from '@mlx-runners/test-fixtures';
import { loadDefaultModel } from './weights.js';

const model = await loadDefaultModel();
afterAll(() => model?.dispose());

const sentence =
  'and so my fellow americans ask not what your country can do for you ask what you can do for your country';
const [speech] = decodeWav(readFileSync(speechPath())).samples;

async function transcribe(audio: AudioInput): Promise<Transcript> {
  if (!model) throw new Error('no model');
  return await model.transcribe(audio).result();
}

/** Lower case, without punctuation. */
function words(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z ]/g, '')
    .replaceAll(/ +/g, ' ')
    .trim();
}

function samples(...parts: Float32Array[]): AudioInput {
  const joined = new Float32Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return { samples: joined, sampleRate: 16_000 };
}

/** 24-bit PCM, mono. */
function wav24(mono: Float32Array, sampleRate: number): Uint8Array {
  const bytes = Buffer.alloc(44 + 3 * mono.length);
  bytes.write('RIFF', 0);
  bytes.writeUInt32LE(bytes.length - 8, 4);
  bytes.write('WAVEfmt ', 8);
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(1, 20);
  bytes.writeUInt16LE(1, 22);
  bytes.writeUInt32LE(sampleRate, 24);
  bytes.writeUInt32LE(3 * sampleRate, 28);
  bytes.writeUInt16LE(3, 32);
  bytes.writeUInt16LE(24, 34);
  bytes.write('data', 36);
  bytes.writeUInt32LE(3 * mono.length, 40);
  for (const [i, value] of mono.entries()) {
    bytes.writeIntLE(Math.round(Math.max(-1, Math.min(value, 1)) * 8388607), 44 + 3 * i, 3);
  }
  return bytes;
}

describe('whisper-base', () => {
  it('transcribes the speech', async () => {
    const transcript = await transcribe(speechPath());
    expect(words(transcript.text)).toBe(sentence);
    expect(transcript).toMatchObject({ language: 'en', duration: 11 });
    const { segments } = transcript;
    expect(segments[0].start).toBeLessThan(0.5);
    expect(segments.at(-1)?.end).toBeGreaterThan(10);
    for (const { noSpeechProb } of segments) {
      expect(noSpeechProb).toBeGreaterThan(0);
      expect(noSpeechProb).toBeLessThan(0.2);
    }
  });

  it('hears the same at 44.1 kHz in stereo', async () => {
    const high = resample(speech, 16_000, 44_100);
    const stereo = encodeWav({ samples: [high, high], sampleRate: 44_100 }, { depth: '16' });
    expect(words((await transcribe(stereo)).text)).toBe(sentence);
  });

  it('hears the same at 8 kHz', async () => {
    // Pairs averaged: a gentle low-pass, which leaves something of what lay above 4 kHz.
    const gentle = Float32Array.from(
      { length: speech.length / 2 },
      (_, i) => (speech[2 * i] + speech[2 * i + 1]) / 2,
    );
    expect(words((await transcribe({ samples: gentle, sampleRate: 8000 })).text)).toBe(sentence);
  });

  it('hears what the reference hears where nothing is left above 4 kHz', async () => {
    // The s of "Americans" lies there. faster-whisper 1.2 gives the same words, greedy, in fp32.
    const sharp = { samples: resample(speech, 16_000, 8000), sampleRate: 8000 };
    const heard = sentence.replace('americans ask', 'america asked');
    expect(words((await transcribe(sharp)).text)).toBe(heard);
  });

  it('hears the same in 24-bit and float files', async () => {
    const float = encodeWav({ samples: [speech], sampleRate: 16_000 }, { depth: '32f' });
    expect(words((await transcribe(wav24(speech, 16_000))).text)).toBe(sentence);
    expect(words((await transcribe(float)).text)).toBe(sentence);
  });

  it('hears speech in noise of a tenth of its power', async () => {
    const power = speech.reduce((sum, x) => sum + x * x, 0) / speech.length;
    const noise = whiteNoise(11, { seed: 5, dbfs: 10 * Math.log10(power) - 10 });
    expect(words((await transcribe(samples(speech.map((x, i) => x + noise[i])))).text)).toBe(
      sentence,
    );
  });

  it('gives five repetitions with right times for five copies with silence between', async () => {
    const gap = silence(3);
    const audio = samples(speech, gap, speech, gap, speech, gap, speech, gap, speech);
    const transcript = await transcribe(audio);
    expect(words(transcript.text).split('country can do for you').length - 1).toBe(5);
    const srt = formatTranscript(transcript, 'srt');
    const cues = [
      ...srt.matchAll(/^(\d\d):(\d\d):(\d\d),(\d{3}) --> (\d\d):(\d\d):(\d\d),(\d{3})$/gm),
    ];
    const seconds = ([h, m, s, ms]: string[]): number =>
      Number(h) * 3600 + Number(m) * 60 + Number(s) + Number(ms) / 1000;
    const times = cues.map((cue) => ({
      start: seconds(cue.slice(1, 5)),
      end: seconds(cue.slice(5, 9)),
    }));
    for (const [i, { start, end }] of times.entries()) {
      expect(start).toBeLessThan(end);
      expect(start).toBeGreaterThanOrEqual(i === 0 ? 0 : times[i - 1].start);
      expect(end).toBeLessThanOrEqual(67);
    }
    for (const begin of [0, 14, 28, 42, 56]) {
      const nearest = Math.min(...times.map(({ start }) => Math.abs(start - begin)));
      expect(nearest, `a cue starts near ${begin} s`).toBeLessThan(1);
    }
    // What really repeats compresses well, so every temperature is tried: minutes on a busy machine.
  }, 600_000);

  it('moves the first words behind leading silence', async () => {
    const { segments } = await transcribe(samples(silence(20), speech));
    expect(segments[0].start).toBeGreaterThan(19.5);
    expect(segments[0].start).toBeLessThan(21);
  });

  it('gives speech after a long gap the time that it takes', async () => {
    const { segments } = await transcribe(samples(speech, silence(25), speech));
    const { start, end, text } = segments.at(-1)!;
    expect(words(text)).toMatch(/do for your country$/);
    expect(start).toBeGreaterThan(35.5);
    expect(end).toBeGreaterThan(42.5);
    expect(end).toBeLessThanOrEqual(47);
  });

  it.each([
    ['12 s of digital zero', silence(12)],
    ['35 s of digital zero', silence(35)],
    ['a room at -60 dBFS', pinkNoise(12, { seed: 1, dbfs: -60 })],
    ['white noise at -40 dBFS', whiteNoise(20, { seed: 2, dbfs: -40 })],
    ['pink noise at -40 dBFS', pinkNoise(40, { seed: 3, dbfs: -40 })],
    ['no samples', new Float32Array(0)],
  ])('hears nothing in %s', async (_, noise) => {
    const { text, segments, language } = await transcribe(samples(noise));
    expect({ text, segments, language }).toEqual({ text: '', segments: [], language: null });
  });

  it('translates and forces a language', async () => {
    if (!model) return;
    const { language } = await model
      .transcribe(speechPath(), { language: 'de', task: 'translate' })
      .result();
    expect(language).toBe('de');
  });

  it('stops when the signal fires', async () => {
    if (!model) return;
    const controller = new AbortController();
    const audio = samples(silence(30), speech);
    const onProgress = (): void => controller.abort();
    const running = model.transcribe(audio, { signal: controller.signal, onProgress });
    await expect(running.result()).rejects.toThrow(AbortedError);
  });

  it('yields segments while it goes on', async () => {
    if (!model) return;
    const starts: number[] = [];
    for await (const { start } of model.transcribe(speechPath())) starts.push(start);
    expect(starts.length).toBeGreaterThan(0);
  });

  it('takes languages by their names, and says which it knows', async () => {
    if (!model) return;
    const { language } = await model.transcribe(speechPath(), { language: 'English' }).result();
    expect(language).toBe('en');
    expect(() => model?.transcribe(speechPath(), { language: 'xx' })).toThrow(
      /There is no language xx\. Known are, also by their names, en zh/,
    );
  });
});
