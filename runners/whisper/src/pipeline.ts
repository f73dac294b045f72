/** Audio in, transcript out: the public API of @mlx-runners/whisper. */
import {
  CheckpointError,
  DisposedError,
  mx,
  quoted,
  throwIfAborted,
  UsageError,
} from '@mlx-runners/mlx-core';
import { resolveModel } from '@mlx-runners/hub';
import { checkOptions, loadOptionsSchema, type LoadOptions } from '@mlx-runners/runner/library';
import { isExport } from '@mlx-runners/program';
import { loadAudio, type AudioInput, type Segment } from '@mlx-runners/speech';
import { loadTokenizer } from '@mlx-runners/text';
import { checkModelFolder, loadWhisper } from './checkpoint.js';
import { parseConfig } from './config.js';
import type { Recogniser } from './decode.js';
import { ExportedWhisper } from './exported-network.js';
import { manifest } from './manifest.js';
import type { Whisper } from './model.js';
import type { SpeechNetwork } from './network.js';
import { specialTokens, suppressedTokens, type SpecialTokens } from './tokens.js';
import { transcribeSettings, type Settings, type TranscribeOptions } from './options.js';
import { transcribeSamples } from './transcribe.js';
import { RunningTranscription, type RecordingInfo, type Transcription } from './transcription.js';

function checkModelName(idOrPath: unknown): void {
  if (typeof idOrPath !== 'string' || idOrPath.trim() === '') {
    const given = quoted(idOrPath);
    throw new UsageError(`load() takes the id of a model or the path of its folder, not ${given}.`);
  }
}

/** Everything that decoding needs, from a model's files. @internal */
export async function loadRecogniser(
  idOrPath: string,
  options: LoadOptions = {},
): Promise<Recogniser<Whisper>> {
  checkModelName(idOrPath);
  const { signal, onProgress, onProfile } = checkOptions('load()', loadOptionsSchema, options);
  if (onProfile) {
    throw new UsageError(
      `Only an export can be profiled, and ${quoted(idOrPath)} is none: "whisper export" makes one.`,
    );
  }
  const folder = await resolveModel(idOrPath, {
    models: manifest.models,
    checkConfig: parseConfig,
    signal,
    onProgress,
  });
  checkModelFolder(folder);
  if (options.device) mx.setDevice(options.device);
  const dtype = options.dtype ?? (mx.device() === 'gpu' ? 'float16' : 'float32');
  try {
    const tokenizer = await loadTokenizer(folder);
    const special = specialTokens(tokenizer);
    const suppressed = suppressedTokens(tokenizer, special);
    throwIfAborted(signal);
    const model = await loadWhisper(folder, dtype);
    checkVocabulary(model, special);
    return { model, tokenizer, special, suppressed };
  } catch (error) {
    if (!(error instanceof CheckpointError) || error.message.includes(folder)) throw error;
    throw new CheckpointError(`${folder}: ${error.message}`, { cause: error });
  }
}

/** The same from an export, whose dtype can't be changed. */
async function loadExportedRecogniser(
  folder: string,
  options: LoadOptions,
): Promise<Recogniser<ExportedWhisper>> {
  const { signal, device, dtype, onProfile } = checkOptions('load()', loadOptionsSchema, options);
  if (device) mx.setDevice(device);
  const model = new ExportedWhisper(folder, onProfile);
  try {
    if (dtype !== undefined && dtype !== model.dtype) {
      throw new UsageError(
        `${folder} is an export in ${model.dtype}: for ${dtype} export the model once more.`,
      );
    }
    const tokenizer = await loadTokenizer(folder);
    const special = specialTokens(tokenizer);
    throwIfAborted(signal);
    checkVocabulary(model, special);
    return { model, tokenizer, special, suppressed: suppressedTokens(tokenizer, special) };
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** The model has to have logits for every token that decoding asks for. */
function checkVocabulary(model: SpeechNetwork, special: SpecialTokens): void {
  const { languages, ...tokens } = special;
  const largest = Math.max(...Object.values(tokens), ...languages.values());
  const { vocab_size: vocabulary } = model.config;
  if (largest < vocabulary) return;
  model.dispose();
  throw new CheckpointError(
    `The tokenizer has the special token ${largest}, the model only ${vocabulary} tokens.`,
  );
}

/**
 * Loads a model: an id of the Hugging Face hub, one of runner.json's short names, or a folder with
 * Hugging Face's or CTranslate2's files, or with what `whisper export` wrote.
 *
 * @throws HubError when the files can't be had, CheckpointError (for an export ProgramError) when they don't
 *   fit together, UsageError for options that make no sense, AbortedError when the signal fires
 */
export async function load(idOrPath: string, options: LoadOptions = {}): Promise<WhisperModel> {
  checkModelName(idOrPath);
  const recogniser = isExport(idOrPath)
    ? await loadExportedRecogniser(idOrPath, options)
    : await loadRecogniser(idOrPath, options);
  return new WhisperModel(recogniser);
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
   * Nothing happens before it is iterated over or its `result()` is awaited.
   *
   * @throws at once UsageError for options that make no sense and DisposedError; from the iteration
   *   or `result()` AudioError for audio that can't be read and AbortedError when the signal fires
   */
  transcribe(audio: AudioInput, options: TranscribeOptions = {}): Transcription {
    if (this.#disposed) throw new DisposedError('The model was disposed.');
    const settings = transcribeSettings(options, this.languages);
    return new RunningTranscription(this.#run(audio, settings));
  }

  async *#run(audio: AudioInput, settings: Settings): AsyncGenerator<Segment, RecordingInfo> {
    try {
      const { samples } = await loadAudio(audio, { signal: settings.signal });
      return yield* transcribeSamples(this.#recogniser, samples, settings);
    } catch (error) {
      if (!(this.#disposed && error instanceof DisposedError)) throw error;
      const message = 'The model was disposed before the transcription had ended.';
      throw new DisposedError(message, { cause: error });
    }
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
