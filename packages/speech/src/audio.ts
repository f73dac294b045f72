/** Audio in: from anything a caller has to the mono samples that models take. */
import { setImmediate } from 'node:timers/promises';
import { AudioError, throwIfAborted, UsageError } from '@mlx-runners/mlx-core/errors';
import { collect, joinBytes, readAudioFile } from './audio-file.js';
import { CONTAINER_NAMES, detectContainer } from './container.js';
import { MAX_SAMPLE_RATE, MIN_SAMPLE_RATE, resampleInSteps } from './resample.js';
import { decodeWav, type PcmAudio } from './wav.js';

/** Mono samples, nominally within −1..1, and their rate in Hz. */
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
 * and gives empty samples.
 *
 * @throws AudioError where the input can't be read or decoded, has no rate, or holds NaN or
 *   infinite samples; UsageError for a senseless `sampleRate` option; AbortedError when `signal`
 *   fires.
 */
export async function loadAudio(input: AudioInput, options: LoadAudioOptions = {}): Promise<Audio> {
  const { sampleRate = 16_000, signal } = options;
  checkTargetRate(sampleRate);
  throwIfAborted(signal);
  const pcm = await readPcm(input, signal);
  checkSourceRate(pcm.sampleRate);
  const mono = mixToMono(pcm.samples);
  checkFinite(mono);
  return {
    samples: await resampleYielding(mono, pcm.sampleRate, sampleRate, signal),
    sampleRate,
    duration: mono.length / pcm.sampleRate,
  };
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

async function readPcm(input: AudioInput, signal: AbortSignal | undefined): Promise<PcmAudio> {
  if (typeof input === 'string' || input instanceof URL) {
    const bytes = await readAudioFile(input, signal);
    return decodeAudio(bytes, `'${input instanceof URL ? input.pathname : input}': `);
  }
  if (isBytes(input)) return decodeAudio(asBytes(input), '');
  if (isStream(input)) return fromStream(input, signal);
  return fromSamples(input);
}

function decodeAudio(bytes: Uint8Array, prefix: string): PcmAudio {
  try {
    if (bytes.length === 0) throw new AudioError('The audio is empty (0 bytes).');
    const container = detectContainer(bytes);
    if (container === 'wav') return decodeWav(bytes);
    throw new AudioError(
      container
        ? `${CONTAINER_NAMES[container]} audio can't be decoded; only WAV can. Convert it with ` +
            `\`ffmpeg -i in.${container} -ar 16000 -ac 1 out.wav\`.`
        : `This is no known audio format (it starts with the bytes ${hexStart(bytes)}); WAV is ` +
            'supported. `ffmpeg -i FILE -ar 16000 -ac 1 out.wav` converts most others.',
    );
  } catch (error) {
    if (prefix === '' || !(error instanceof AudioError)) throw error;
    throw new AudioError(prefix + error.message, { cause: error });
  }
}

function hexStart(bytes: Uint8Array): string {
  return Buffer.from(bytes.subarray(0, 4)).toString('hex');
}

function fromSamples(audio: AudioSamples): PcmAudio {
  if (ArrayBuffer.isView(audio) || Array.isArray(audio)) {
    throw new AudioError(
      'Samples alone do not say their rate: pass { samples, sampleRate } with the rate in Hz.',
    );
  }
  const { samples, sampleRate } = (audio ?? {}) as Partial<AudioSamples>;
  if (!(samples instanceof Float32Array)) {
    throw new AudioError(
      'Audio must be a path, a file: URL, bytes, a stream of bytes, or { samples, sampleRate } ' +
        'with samples as a Float32Array within -1..1.',
    );
  }
  if (typeof sampleRate !== 'number') {
    throw new AudioError('Samples need their rate in Hz: { samples, sampleRate }.');
  }
  return { samples: [samples], sampleRate };
}

async function fromStream(
  stream: AsyncIterable<AudioBytes> | AsyncIterable<AudioSamples>,
  signal: AbortSignal | undefined,
): Promise<PcmAudio> {
  const chunks = await collect<AudioBytes | AudioSamples>(stream, signal);
  if (chunks.every(isBytes)) return decodeAudio(joinBytes(chunks.map(asBytes)), '');
  if (chunks.some((chunk) => isBytes(chunk) || typeof chunk === 'string')) {
    throw new AudioError(
      'A stream of audio must give only bytes (no text encoding), or only { samples, sampleRate }.',
    );
  }
  const pieces = (chunks as AudioSamples[]).map(fromSamples);
  const { sampleRate } = pieces[0];
  const other = pieces.find((piece) => piece.sampleRate !== sampleRate);
  if (other) {
    throw new AudioError(
      `The sample rate changes inside the stream, from ${sampleRate} to ${other.sampleRate} Hz.`,
    );
  }
  return { samples: [joinSamples(pieces.map((piece) => piece.samples[0]))], sampleRate };
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

function checkFinite(samples: Float32Array): void {
  const index = samples.findIndex((sample) => !Number.isFinite(sample));
  if (index >= 0) {
    throw new AudioError(
      `Sample ${index} of the audio is ${samples[index]}; all samples must be finite numbers.`,
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
