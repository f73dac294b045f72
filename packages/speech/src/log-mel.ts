/** Mel filters, and the log-mel spectrogram of Whisper (openai/whisper, `whisper/audio.py`). */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { hannWindow, powerSpectrogram, type StftOptions } from './stft.js';

export interface MelFilterOptions {
  /** Slaney: linear to 1 kHz, logarithmic above. HTK: 2595 · log10(1 + f / 700). */
  scale?: 'slaney' | 'htk';
  /** Slaney: every filter has the same area; none: every filter peaks at 1. */
  norm?: 'slaney' | 'none';
  /** Hz; 0 unless given. */
  fMin?: number;
  /** Hz; half the sample rate unless given. */
  fMax?: number;
}

export interface LogMelOptions {
  /** Mel bands, 80 or 128. */
  nMels?: number;
  /** Zero samples appended before the transform: 480000 (30 s) where a file is transcribed whole. */
  padding?: number;
}

const SAMPLE_RATE = 16_000;

const WHISPER_STFT: StftOptions = {
  nFft: 400,
  hopLength: 160,
  window: hannWindow(400, 'periodic'),
  padding: 'reflect',
};

/**
 * Triangular mel filters, [nFft / 2 + 1, nMels] row-major, computed in double precision; the
 * algorithm of librosa's `filters.mel` (Slaney, "Auditory Toolbox", 1998).
 */
export function melFilters(
  sampleRate: number,
  nFft: number,
  nMels: number,
  options: MelFilterOptions = {},
): Float32Array {
  const { scale = 'slaney', norm = 'slaney', fMin = 0, fMax = sampleRate / 2 } = options;
  const [toMel, toHz] = scale === 'slaney' ? [slaneyMel, slaneyHz] : [htkMel, htkHz];
  const low = toMel(fMin);
  const step = (toMel(fMax) - low) / (nMels + 1);
  const edges = Float64Array.from({ length: nMels + 2 }, (_, i) => toHz(low + i * step));
  const bins = Math.floor(nFft / 2) + 1;
  const filters = new Float32Array(bins * nMels);
  for (let band = 0; band < nMels; band++) {
    const [left, peak, right] = edges.subarray(band, band + 3) as unknown as number[];
    const height = norm === 'slaney' ? 2 / (right - left) : 1;
    for (let bin = 0; bin < bins; bin++) {
      const frequency = (bin * sampleRate) / nFft;
      const rise = (frequency - left) / (peak - left);
      const fall = (right - frequency) / (right - peak);
      filters[bin * nMels + band] = height * Math.max(0, Math.min(rise, fall));
    }
  }
  return filters;
}

/**
 * Whisper's log-mel spectrogram of mono samples at 16 kHz: float32 [frames, nMels], one frame every
 * 10 ms, ⌊(n + padding) / 160⌋ of them (channels last, as MLX's convolutions take them).
 *
 * The floor lies 8 (80 dB) below the maximum of the *whole* input, so a recording's features depend
 * on how much of it is passed at once. The result is lazy: nothing is computed before it is used.
 *
 * @throws UsageError for a padding that is no count of samples
 */
export function logMelSpectrogram(samples: Float32Array, options: LogMelOptions = {}): MxArray {
  const { nMels = 80, padding = 0 } = options;
  if (!Number.isInteger(padding) || padding < 0) {
    throw new UsageError(`padding must be a number of samples, 0 or more, not ${padding}.`);
  }
  let signal = samples;
  if (padding > 0) {
    signal = new Float32Array(samples.length + padding);
    signal.set(samples);
  }
  // Whisper drops the last frame, which is centred on the end of the signal.
  const frames = Math.floor(signal.length / WHISPER_STFT.hopLength);
  return mx.tidy(() => {
    const filters = mx.array(melFilters(SAMPLE_RATE, WHISPER_STFT.nFft, nMels), [201, nMels]);
    const mel = (power: MxArray) => mx.matmul(power, filters);
    const log = mx.log10(mx.maximum(powerSpectrogram(signal, WHISPER_STFT, mel, frames), 1e-10));
    if (frames === 0) return log;
    return mx.divide(mx.add(mx.maximum(log, mx.subtract(mx.max(log), 8)), 4), 4);
  });
}

const LOG_START = 1000; // Hz
const LOG_START_MEL = 15;
const LINEAR_STEP = LOG_START / LOG_START_MEL;
const LOG_STEP = Math.log(6.4) / 27;

function slaneyMel(hz: number): number {
  return hz < LOG_START ? hz / LINEAR_STEP : LOG_START_MEL + Math.log(hz / LOG_START) / LOG_STEP;
}

function slaneyHz(mel: number): number {
  return mel < LOG_START_MEL
    ? mel * LINEAR_STEP
    : LOG_START * Math.exp((mel - LOG_START_MEL) * LOG_STEP);
}

function htkMel(hz: number): number {
  return 2595 * Math.log10(1 + hz / 700);
}

function htkHz(mel: number): number {
  return 700 * (10 ** (mel / 2595) - 1);
}
