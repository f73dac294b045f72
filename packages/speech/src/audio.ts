/** Audio in: from anything a caller has to the mono samples that models take. */
import { setImmediate } from 'node:timers/promises';
import { AudioError, throwIfAborted, UsageError } from '@mlx-runners/mlx-core/errors';
import {
  audioName,
  collect,
  joinBytes,
  readAudioFile,
  readStart,
  type Inspect,
} from './audio-file.js';
import { CONTAINER_BYTES, CONTAINER_NAMES, detectContainer } from './container.js';
import { MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, resampleInSteps } from './resample.js';
import { decodeWav, type PcmAudio } from './wav.js';

/** Mono samples, nominally within −1..1 and at most ±100, and their rate in Hz. */
export interface AudioSamples {
  samples: Float32Array;
  sampleRate: number;
}

type AudioBytes = Uint8Array | ArrayBuffer;

/**
 * A path, a `file:` URL, a file's bytes, mono samples with their rate, or a stream of either bytes
 * or samples (for example `process.stdin`). Samples without a rate are not audio.
 */
export type AudioInput =
  | string
  | URL
  | AudioBytes
  | AudioSamples
  | AsyncIterable<AudioBytes>
  | AsyncIterable<AudioSamples>;

export interface LoadAudioOptions {
  /** Rate of the result in Hz; 16000 unless given. */
  sampleRate?: number;
  signal?: AbortSignal;
}

export interface Audio extends AudioSamples {
  /** Seconds, as the input had it. */
  duration: number;
}

/**
 * Reads, decodes, mixes to mono (by the mean of the channels) and resamples.
 *
 * The container is told from the bytes, never from a name. Audio without a single sample is valid
 * and gives empty samples. A stream is read no further after an error, but not destroyed: that is
 * left to the caller, who may have to answer a request first.
 *
 * @throws AudioError where the input can't be read or decoded, is too large (4 GiB, or a quarter of
 *   the memory), has no rate, or holds samples that are NaN or beyond ±100; UsageError for a
 *   senseless `sampleRate` option; AbortedError when `signal` fires.
 */
export async function loadAudio(input: AudioInput, options: LoadAudioOptions = {}): Promise<Audio> {
  const { sampleRate = 16_000, signal } = options;
  checkTargetRate(sampleRate);
  throwIfAborted(signal);
  const source = await readMono(input, signal);
  return {
    samples: await resampleYielding(source.samples, source.sampleRate, sampleRate, signal),
    sampleRate,
    duration: source.samples.length / source.sampleRate,
  };
}

/**
 * Whether a file can be read and is of a known format, as far as its first bytes tell: for commands
 * that load a model before they come to the audio. Pipes are left alone.
 *
 * @throws AudioError where `loadAudio` would fail for certain
 */
export async function checkAudioFile(file: string | URL): Promise<void> {
  const start = await readStart(file, CONTAINER_BYTES);
  if (start) named(audioName(file), () => checkContent(start));
}

/** The mean of the channels; one channel is returned as it is. */
export function mixToMono(channels: Float32Array[]): Float32Array {
  const [first = new Float32Array(0)] = channels;
  if (channels.length <= 1) return first;
  const mono = new Float32Array(first.length);
  for (let i = 0; i < mono.length; i++) {
    let sum = 0;
    for (const channel of channels) sum += channel[i];
    mono[i] = sum / channels.length;
  }
  return mono;
}

async function readMono(input: AudioInput, signal: AbortSignal | undefined): Promise<AudioSamples> {
  if (typeof input === 'string' || input instanceof URL) return await fromFile(input, signal);
  if (isBytes(input)) return usable(decodeAudio(asBytes(input)));
  return usable(isStream(input) ? await fromStream(input, signal) : fromSamples(input));
}

async function fromFile(
  file: string | URL,
  signal: AbortSignal | undefined,
): Promise<AudioSamples> {
  const name = audioName(file);
  const inspect: Inspect<Uint8Array> = (chunk, bytesBefore) => {
    if (bytesBefore === 0) named(name, () => checkStart(chunk));
  };
  const bytes = await readAudioFile(file, inspect, signal);
  return named(name, () => usable(decodeAudio(bytes)));
}

/** Does something with a file's content; an AudioError gets the file's name. */
function named<Result>(name: string, use: () => Result): Result {
  try {
    return use();
  } catch (error) {
    if (!(error instanceof AudioError)) throw error;
    throw new AudioError(`${name}: ${error.message}`, { cause: error });
  }
}

function usable({ samples, sampleRate }: PcmAudio): AudioSamples {
  checkSourceRate(sampleRate);
  samples.forEach(checkSamples);
  return { samples: mixToMono(samples), sampleRate };
}

function decodeAudio(bytes: Uint8Array): PcmAudio {
  checkContent(bytes);
  return decodeWav(bytes);
}

function checkContent(bytes: Uint8Array): void {
  if (bytes.length === 0) throw new AudioError('The audio is empty (0 bytes).');
  checkContainer(bytes);
}

/** Refuses a stream that is no WAV by its first chunk: the rest may never end. */
function checkStart(chunk: Uint8Array): void {
  if (chunk.length >= CONTAINER_BYTES) checkContainer(chunk);
}

function checkContainer(bytes: Uint8Array): void {
  const container = detectContainer(bytes);
  if (container === 'wav') return;
  throw new AudioError(
    container
      ? `${CONTAINER_NAMES[container]} audio can't be decoded; only WAV can. Convert it with ` +
          `\`ffmpeg -i in.${container} -ar 16000 -ac 1 out.wav\`.`
      : `This is no known audio format (it starts with the bytes ${hexStart(bytes)}); WAV is ` +
          'supported. `ffmpeg -i FILE -ar 16000 -ac 1 out.wav` converts most others.',
  );
}

function hexStart(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 4)).toString('hex');
}

function fromSamples(audio: unknown): PcmAudio {
  if (ArrayBuffer.isView(audio) || Array.isArray(audio)) {
    throw new AudioError(
      'Samples alone do not say their rate: pass { samples, sampleRate } with the rate in Hz.',
    );
  }
  if (typeof audio !== 'object' || audio === null || !('samples' in audio)) {
    throw new AudioError(
      'Audio must be a path, a file: URL, bytes, a stream of bytes, or { samples, sampleRate }, ' +
        `not ${typeName(audio)}.`,
    );
  }
  const { samples, sampleRate } = audio as { samples: unknown; sampleRate?: unknown };
  if (!(samples instanceof Float32Array)) {
    throw new AudioError(
      `Samples must be a Float32Array within -1..1, not ${typeName(samples)}: ` +
        'Float32Array.from() converts, and 16-bit integers are divided by 32768.',
    );
  }
  if (isDetached(samples)) {
    throw new AudioError('The samples were transferred elsewhere: pass a copy of them.');
  }
  if (typeof sampleRate !== 'number') {
    throw new AudioError('Samples need their rate in Hz: { samples, sampleRate }.');
  }
  return { samples: [samples], sampleRate };
}

/** Node 20 has no `ArrayBuffer.detached`. */
function isDetached({ buffer }: Float32Array): boolean {
  try {
    new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

/** `null`, `number`, or the name of a class such as `Float64Array`. */
function typeName(value: unknown): string {
  if (value === null || typeof value !== 'object') return value === null ? 'null' : typeof value;
  if (Symbol.asyncIterator in value) return 'a stream (which gives { samples, sampleRate } itself)';
  const { name } = (value as { constructor?: { name?: string } }).constructor ?? {};
  return name || 'an object';
}

async function fromStream(
  stream: AsyncIterable<AudioBytes> | AsyncIterable<AudioSamples>,
  signal: AbortSignal | undefined,
): Promise<PcmAudio> {
  const chunks = await collect<AudioBytes | AudioSamples>(stream, inspectChunk, signal);
  if (chunks.every(isBytes)) return decodeAudio(joinBytes(chunks.map(asBytes)));
  if (chunks.some(isBytes)) throw new AudioError(STREAM_CONTENT);
  const pieces = chunks.map(fromSamples);
  const { sampleRate } = pieces[0];
  const other = pieces.find((piece) => piece.sampleRate !== sampleRate);
  if (other) {
    throw new AudioError(
      `The sample rate changes inside the stream, from ${sampleRate} to ${other.sampleRate} Hz.`,
    );
  }
  return { samples: [joinSamples(pieces.map((piece) => piece.samples[0]))], sampleRate };
}

const STREAM_CONTENT =
  'A stream of audio must give only bytes (no text encoding), or only { samples, sampleRate }.';

function inspectChunk(chunk: unknown, bytesBefore: number): void {
  if (typeof chunk === 'string') throw new AudioError(STREAM_CONTENT);
  if (!isBytes(chunk)) fromSamples(chunk);
  else if (bytesBefore === 0) checkStart(asBytes(chunk));
}

function joinSamples(pieces: Float32Array[]): Float32Array {
  const samples = new Float32Array(pieces.reduce((total, piece) => total + piece.length, 0));
  let length = 0;
  for (const piece of pieces) {
    samples.set(piece, length);
    length += piece.length;
  }
  return samples;
}

async function resampleYielding(
  samples: Float32Array,
  fromRate: number,
  toRate: number,
  signal: AbortSignal | undefined,
): Promise<Float32Array> {
  const steps = resampleInSteps(samples, fromRate, toRate);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await setImmediate();
    throwIfAborted(signal);
  }
}

function checkTargetRate(rate: number): void {
  if (!isRate(rate)) throw new UsageError(`sampleRate must be ${RATE_RANGE}, not ${rate}.`);
}

function checkSourceRate(rate: number): void {
  if (!isRate(rate)) {
    throw new AudioError(`The audio says a sample rate of ${rate} Hz; it must be ${RATE_RANGE}.`);
  }
}

const RATE_RANGE = `an integer from ${MIN_SAMPLE_RATE} to ${MAX_SAMPLE_RATE} Hz`;

function isRate(rate: number): boolean {
  return Number.isInteger(rate) && rate >= MIN_SAMPLE_RATE && rate <= MAX_SAMPLE_RATE;
}

// 40 dB beyond full scale, where no recording is: such samples are damaged, or integers.
const LOUDEST = 100;

function checkSamples(samples: Float32Array): void {
  for (let i = 0; i < samples.length; i++) {
    if (Math.abs(samples[i]) <= LOUDEST) continue; // which NaN is not
    throw new AudioError(
      `Sample ${i} of the audio is ${samples[i]}; samples must be numbers within -1..1 (somewhat ` +
        `more is fine, up to ${LOUDEST}). 16-bit integers are divided by 32768.`,
    );
  }
}

function isBytes(input: unknown): input is AudioBytes {
  return input instanceof Uint8Array || input instanceof ArrayBuffer;
}

function asBytes(input: AudioBytes): Uint8Array {
  return input instanceof Uint8Array ? input : new Uint8Array(input);
}

function isStream(
  input: unknown,
): input is AsyncIterable<AudioBytes> | AsyncIterable<AudioSamples> {
  return typeof input === 'object' && input !== null && Symbol.asyncIterator in input;
}
