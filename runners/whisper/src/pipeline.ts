/** Audio in, transcript out: the public API of @mlx-runners/whisper. */
import { fileURLToPath } from 'node:url';
import { DisposedError, mx, UsageError, type Device, type Dtype } from '@mlx-runners/mlx-core';
import { resolveModel, type DownloadProgress } from '@mlx-runners/hub';
import { loadRunnerManifest } from '@mlx-runners/runner';
import { loadAudio, type AudioInput, type Segment, type Transcript } from '@mlx-runners/speech';
import { loadTokenizer } from '@mlx-runners/text';
import { loadWhisper } from './checkpoint.js';
import type { Recogniser } from './decode.js';
import { specialTokens, suppressedTokens } from './tokens.js';
import { transcribeSamples, type TranscribeOptions, type RecordingInfo } from './transcribe.js';

/** runner.json of this package. */
export const manifest = loadRunnerManifest(fileURLToPath(new URL('..', import.meta.url)));

export interface LoadOptions {
  /** Where to compute: the GPU where there is one, unless given. */
  device?: Device;
  /** Of weights and activations: float32 on the CPU, float16 on a GPU, unless given. */
  dtype?: Extract<Dtype, 'float32' | 'float16' | 'bfloat16'>;
  signal?: AbortSignal;
  /** Called while model files are fetched. */
  onProgress?: (progress: DownloadProgress) => void;
}

/** Everything that decoding needs, from a model's files. @internal */
export async function loadRecogniser(
  idOrPath: string,
  options: LoadOptions = {},
): Promise<Recogniser> {
  const { signal, onProgress } = options;
  const folder = await resolveModel(idOrPath, { models: manifest.models, signal, onProgress });
  if (options.device) mx.setDevice(options.device);
  const dtype = options.dtype ?? (mx.device() === 'gpu' ? 'float16' : 'float32');
  const tokenizer = await loadTokenizer(folder);
  const special = specialTokens(tokenizer);
  const suppressed = suppressedTokens(tokenizer, special);
  const model = await loadWhisper(folder, dtype);
  return { model, tokenizer, special, suppressed };
}

/**
 * Loads a model: an id of the Hugging Face hub, one of runner.json's short names, or a folder with
 * Hugging Face's or CTranslate2's files.
 *
 * @throws HubError when the files can't be had, CheckpointError when they don't fit together
 */
export async function load(idOrPath: string, options: LoadOptions = {}): Promise<WhisperModel> {
  return new WhisperModel(await loadRecogniser(idOrPath, options));
}

/** A transcription under way: iterate over it for segments as they come, or await `result()`. */
export interface Transcription extends AsyncIterable<Segment> {
  /** The whole transcript, once all audio is done. */
  result(): Promise<Transcript>;
}

export class WhisperModel {
  readonly #recogniser: Recogniser;
  #disposed = false;

  /** @internal Use `load`. */
  constructor(recogniser: Recogniser) {
    this.#recogniser = recogniser;
  }

  /** Codes of the languages it knows; only `en` for English-only models. */
  get languages(): string[] {
    const { languages } = this.#recogniser.special;
    return languages.size > 0 ? [...languages.keys()] : ['en'];
  }

  /**
   * Transcribes audio of any length: a path, bytes, `{ samples, sampleRate }`, or a stream of them.
   * Nothing happens before the result is awaited or iterated over.
   *
   * @throws UsageError for options that make no sense; while iterating, AudioError for audio that
   *   can't be read and AbortedError when the signal fires
   */
  transcribe(audio: AudioInput, options: TranscribeOptions = {}): Transcription {
    if (this.#disposed) throw new DisposedError('The model was disposed.');
    checkOptions(options, this.languages);
    return new RunningTranscription(this.#recogniser, audio, options);
  }

  /** Frees the weights. Twice is fine; a transcription under way fails with a DisposedError. */
  dispose(): Promise<void> {
    if (!this.#disposed) this.#recogniser.model.dispose();
    this.#disposed = true;
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

const thresholds = ['noSpeechThreshold', 'logprobThreshold', 'compressionRatioThreshold'] as const;

function checkOptions(options: TranscribeOptions, languages: readonly string[]): void {
  const { language, task, temperature, bestOf } = options;
  if (language !== undefined && !languages.includes(language)) {
    const known = languages.length === 1 ? 'The model knows only' : 'Known are';
    throw new UsageError(`There is no language ${language}. ${known} ${languages.join(' ')}.`);
  }
  if (task !== undefined && task !== 'transcribe' && task !== 'translate') {
    throw new UsageError(`The task has to be transcribe or translate, not ${String(task)}.`);
  }
  if (task === 'translate' && languages.length === 1) {
    throw new UsageError('An English-only model can not translate.');
  }
  const isList = Array.isArray(temperature) && temperature.length > 0;
  if (temperature !== undefined && !(isList && temperature.every((t) => t >= 0))) {
    throw new UsageError('temperature has to be a list of numbers, 0 or more.');
  }
  for (const name of thresholds) {
    if (options[name] !== undefined && !Number.isFinite(options[name])) {
      throw new UsageError(`${name} has to be a number, not ${String(options[name])}.`);
    }
  }
  if (bestOf !== undefined && !(Number.isInteger(bestOf) && bestOf >= 1)) {
    throw new UsageError(`bestOf has to be a whole number of at least 1, not ${bestOf}.`);
  }
}

class RunningTranscription implements Transcription {
  readonly #segments: AsyncGenerator<Segment>;
  readonly #seen: Segment[] = [];
  readonly #info: RecordingInfo = { duration: 0, language: null };

  constructor(recogniser: Recogniser, audio: AudioInput, options: TranscribeOptions) {
    this.#segments = this.#run(recogniser, audio, options);
  }

  async *#run(
    recogniser: Recogniser,
    audio: AudioInput,
    options: TranscribeOptions,
  ): AsyncGenerator<Segment> {
    const { samples } = await loadAudio(audio, { signal: options.signal });
    for await (const segment of transcribeSamples(recogniser, samples, options, this.#info)) {
      this.#seen.push(segment);
      yield segment;
    }
  }

  [Symbol.asyncIterator](): AsyncIterator<Segment> {
    return this.#segments;
  }

  async result(): Promise<Transcript> {
    while (!(await this.#segments.next()).done);
    const text = this.#seen.map((segment) => segment.text).join('');
    return { text: text.trim(), ...this.#info, segments: this.#seen };
  }
}
