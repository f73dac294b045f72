/**
 * Transcribing recordings of any length, window by window. Follows openai/whisper
 * `whisper/transcribe.py`.
 */
import { mx, throwIfAborted, type MxArray } from '@mlx-runners/mlx-core';
import { logMelSpectrogram, type Segment } from '@mlx-runners/speech';
import { decodeWindow, lookAt, type DecodeResult, type Recogniser } from './decode.js';
import type { AudioWindow } from './network.js';
import {
  frameLevels,
  frameVolumes,
  isSteady,
  spokenEnd,
  trimSilence,
  type Span,
} from './loudness.js';
import type { Settings } from './options.js';
import { textOf, timePrecision } from './tokens.js';
import type { RecordingInfo } from './transcription.js';

const sampleRate = 16_000;
const hopLength = 160;
const framesPerSecond = sampleRate / hopLength;
// The encoder halves the frame rate.
const framesPerTimestamp = 2;
// A prompt from a window that was sampled this freely does more harm than good.
const freeTemperature = 0.5;

/**
 * The window that starts at a frame of features [frames, mels]. A window
 * that reaches past the recording is filled with the features of silence, as in training, where
 * openai/whisper's transcribe() fills it with zeros: the text becomes likelier (jfk.wav through
 * whisper-base: mean log-probability −0.30 instead of −0.40).
 */
async function encodeWindow(
  { model }: Recogniser,
  features: MxArray,
  start: number,
): Promise<AudioWindow> {
  using window = mx.tidy(() => {
    const [, bands] = features.shape;
    const length = 2 * model.config.max_source_positions;
    return features.slice([start, 0], [start + length, bands]).expandDims(0);
  });
  return await model.encode(window);
}

/**
 * Decodes at rising temperatures until a text is plausible. Where none is, the likeliest is taken of
 * those that don't repeat themselves, or of all: the last and freest, which openai/whisper takes,
 * turns speech that really repeats into guesses.
 */
async function decodeWithFallback(
  recogniser: Recogniser,
  encoded: AudioWindow,
  settings: Settings,
  language: string,
  prompt: readonly number[],
): Promise<DecodeResult> {
  const { task, bestOf, seed, signal, temperature: temperatures } = settings;
  const { noSpeechThreshold, logprobThreshold, compressionRatioThreshold } = settings;
  const repeats = (result: DecodeResult): boolean =>
    result.compressionRatio > compressionRatioThreshold;
  const attempts: DecodeResult[] = [];
  for (const temperature of temperatures) {
    const timestamps = true;
    const options = { task, language, temperature, bestOf, prompt, timestamps, seed, signal };
    const result = await decodeWindow(recogniser, encoded, options);
    const unlikely = result.avgLogprob < logprobThreshold;
    const silent = unlikely && result.noSpeechProb > noSpeechThreshold;
    if (silent || (!unlikely && !repeats(result))) return result;
    attempts.push(result);
  }
  const plain = attempts.filter((result) => !repeats(result));
  const choice = plain.length > 0 ? plain : attempts;
  return choice.reduce((best, next) => (next.avgLogprob > best.avgLogprob ? next : best));
}

/** Cuts a window's tokens into segments, and says how many frames are done with. */
export function cutSegments(
  tokens: readonly number[],
  timestampBegin: number,
  window: Span,
): { pieces: { start: number; end: number; tokens: number[] }[]; advance: number } {
  const offset = window.start / framesPerSecond;
  const frames = window.end - window.start;
  const isTimestamp = (token: number | undefined): boolean =>
    token !== undefined && token >= timestampBegin;
  const seconds = (token: number): number => (token - timestampBegin) * timePrecision;
  const endsInOne = isTimestamp(tokens.at(-1)) && !isTimestamp(tokens.at(-2)) && tokens.length > 1;
  const cuts: number[] = [];
  for (let i = 1; i < tokens.length; i++) {
    if (isTimestamp(tokens[i - 1]) && isTimestamp(tokens[i])) cuts.push(i);
  }
  if (cuts.length === 0) {
    const last = tokens.findLast(isTimestamp);
    const stated = last === undefined ? 0 : seconds(last);
    const end = offset + (stated > 0 ? stated : frames / framesPerSecond);
    return { pieces: [{ start: offset, end, tokens: [...tokens] }], advance: frames };
  }
  if (endsInOne) cuts.push(tokens.length);
  const pieces = cuts.map((cut, i) => {
    const piece = tokens.slice(i === 0 ? 0 : cuts[i - 1], cut);
    return {
      start: offset + seconds(piece[0]),
      end: offset + seconds(piece.at(-1)!),
      tokens: piece,
    };
  });
  const last = tokens[cuts.at(-1)! - 1] - timestampBegin;
  // A window that ends in a single timestamp had no speech after it.
  const advance = endsInOne ? frames : last * framesPerTimestamp;
  // A timestamp of 0.00 would decode the same window for ever.
  return { pieces, advance: advance > 0 ? advance : frames };
}

/**
 * A segment's times in seconds as the sound has them: without silence at its ends, and not over
 * before its text can have been spoken.
 *
 * @param next where the next segment may start, in seconds
 */
function audibleTimes(
  volumes: Float32Array,
  { start, end, text, next }: Span & { text: string; next: number },
  window: Span,
): Span {
  const frame = (seconds: number): number => Math.round(seconds * framesPerSecond);
  const trimmed = trimSilence(volumes, { start: frame(start), end: frame(end) }, window);
  const characters = text.trim().length;
  const spoken = spokenEnd(volumes, trimmed, characters, frame(next), window);
  return { start: trimmed.start / framesPerSecond, end: spoken / framesPerSecond };
}

/**
 * Transcribes mono samples at 16 kHz; yields segments as windows are decoded.
 *
 * @throws AbortedError when the signal fires
 */
export async function* transcribeSamples(
  recogniser: Recogniser,
  samples: Float32Array,
  settings: Settings,
): AsyncGenerator<Segment, RecordingInfo> {
  const { model, special, tokenizer } = recogniser;
  const windowFrames = 2 * model.config.max_source_positions;
  const content = Math.floor(samples.length / hopLength);
  const info: RecordingInfo = {
    duration: samples.length / sampleRate,
    language: special.languages.size > 0 ? (settings.language ?? null) : 'en',
  };
  if (content === 0) return info;
  // One spectrogram of everything: its floor depends on the loudest frame of the whole recording.
  using features = logMelSpectrogram(samples, {
    nMels: model.config.num_mel_bins,
    padding: windowFrames * hopLength,
  });
  const levels = await frameLevels(features);
  const volumes = frameVolumes(samples);

  const history = settings.initialPrompt
    ? tokenizer.encode(` ${settings.initialPrompt.trim()}`)
    : [];
  let promptFrom = 0;
  let id = 0;
  let seek = 0;
  while (seek < content) {
    throwIfAborted(settings.signal);
    const window = { start: seek, end: Math.min(seek + windowFrames, content) };
    const steady = isSteady(levels, window);
    const prompt = history.slice(promptFrom);
    using encoded = await encodeWindow(recogniser, features, seek);
    const result = await recogniseWindow(recogniser, encoded, settings, { info, steady, prompt });
    let advance = window.end - window.start;
    if (result) {
      const cut = cutSegments(result.tokens, special.timestampBegin, window);
      ({ advance } = cut);
      const { avgLogprob, compressionRatio, noSpeechProb, temperature } = result;
      for (const [i, { start, end, tokens }] of cut.pieces.entries()) {
        const text = textOf(tokenizer, tokens, special.eot);
        if (start === end || text.trim() === '') continue;
        history.push(...tokens);
        const next = cut.pieces[i + 1]?.start ?? (seek + advance) / framesPerSecond;
        const times = audibleTimes(volumes, { start, end, text, next }, window);
        const scores = { temperature, avgLogprob, compressionRatio, noSpeechProb };
        yield { id, seek, ...times, text, tokens, ...scores };
        id += 1;
      }
      if (!settings.conditionOnPreviousText || temperature > freeTemperature) {
        promptFrom = history.length;
      }
    }
    seek += advance;
    const seconds = Math.min(seek / framesPerSecond, info.duration);
    settings.onProgress?.({ seconds, duration: info.duration });
  }
  return info;
}

/** Decodes one window; nothing for one without speech. */
async function recogniseWindow(
  recogniser: Recogniser,
  encoded: AudioWindow,
  settings: Settings,
  { info, steady, prompt }: { info: RecordingInfo; steady: boolean; prompt: readonly number[] },
): Promise<DecodeResult | undefined> {
  if (steady || info.language === null) {
    const { noSpeechProb, languages } = await lookAt(recogniser, encoded);
    if (steady && noSpeechProb > settings.noSpeechThreshold) return undefined;
    info.language ??= languages[0].language;
  }
  const result = await decodeWithFallback(recogniser, encoded, settings, info.language, prompt);
  const { noSpeechProb, avgLogprob } = result;
  const silent =
    noSpeechProb > settings.noSpeechThreshold && avgLogprob <= settings.logprobThreshold;
  return silent ? undefined : result;
}
