/**
 * Band-limited sample-rate conversion between any two integer rates.
 *
 * Windowed-sinc interpolation (J. O. Smith, "Digital Audio Resampling") in two steps, because one
 * sharp filter per output sample costs ten times as much: first a long Kaiser low-pass at the
 * input's rate (at twice the rate where that leaves too little room), applied by FFT; then a short
 * polyphase Kaiser-windowed sinc, whose transition band is where the first filter left nothing.
 *
 * Both filters reject 120 dB. Up to 0.913 of the lower rate's Nyquist frequency (soxr's pass band)
 * nothing changes; from Nyquist on nothing is left, so that nothing aliases.
 */
import { AudioError } from '@mlx-runners/mlx-core/errors';
import {
  kaiser,
  kaiserBeta,
  kaiserHalfLength,
  lowPass,
  OverlapSaveFilter,
  sinc,
} from './overlap-save.js';

const ATTENUATION = 120; // dB
const PASS_BAND = 0.913;
const BETA = kaiserBeta(ATTENUATION);

// Rates beyond these are damaged headers; at 1 Hz a megabyte would become gigabytes.
export const MIN_SAMPLE_RATE = 1000;
export const MAX_SAMPLE_RATE = 768_000;

// 4 s at 16 kHz: stays in the cache, and lets others run between blocks.
const BLOCK = 2 ** 16;

interface Conversion {
  filter: OverlapSaveFilter;
  /** Zeros are put between samples so that the filter sees the signal at this multiple of its rate. */
  spacing: number;
  /** Output sample m lies at m · down / up on the filtered signal's grid. */
  up: number;
  down: number;
  /** The short filter at each of its `up` phases, one after another, `taps` values each. */
  phases: Float64Array;
  taps: number;
}

/**
 * Converts `samples` from one rate to another, without delay: output m is the signal at m / toRate
 * seconds; before and after the samples there is silence.
 *
 * @returns ⌈n · toRate / fromRate⌉ samples: every output instant that the input lasts. Equal rates
 *   give back the same array.
 * @throws AudioError for rates that are not integers between 1 and 768 kHz.
 */
export function resample(samples: Float32Array, fromRate: number, toRate: number): Float32Array {
  const steps = resampleInSteps(samples, fromRate, toRate);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** `resample` as a generator that pauses every few seconds of audio, so that long work can yield. */
export function* resampleInSteps(
  samples: Float32Array,
  fromRate: number,
  toRate: number,
): Generator<void, Float32Array> {
  checkRate(fromRate);
  checkRate(toRate);
  if (fromRate === toRate) return samples;
  const length = outputLength(samples.length, fromRate, toRate);
  const out = new Float32Array(length);
  if (length === 0) return out;
  const conversion = plan(fromRate, toRate);
  for (let start = 0; start < length; start += BLOCK) {
    convertBlock(conversion, samples, out, start, Math.min(length, start + BLOCK));
    yield;
  }
  return out;
}

function checkRate(rate: number): void {
  if (!Number.isInteger(rate) || rate < MIN_SAMPLE_RATE || rate > MAX_SAMPLE_RATE) {
    throw new AudioError(
      `The sample rate must be an integer from ${MIN_SAMPLE_RATE} to ${MAX_SAMPLE_RATE} Hz, not ${rate}.`,
    );
  }
}

function outputLength(length: number, fromRate: number, toRate: number): number {
  const common = gcd(fromRate, toRate);
  return Math.ceil((length * (toRate / common)) / (fromRate / common));
}

function plan(fromRate: number, toRate: number): Conversion {
  const band = Math.min(fromRate, toRate) / 2;
  // Leaves the short filter at least a third of the spectrum for its transition.
  const spacing = fromRate >= 1.5 * toRate ? 1 : 2;
  const rate = fromRate * spacing;
  const cutoff = (band * (1 + PASS_BAND)) / 2 / rate;
  const length = kaiserHalfLength(ATTENUATION, (band * (1 - PASS_BAND)) / rate);
  const up = toRate / gcd(rate, toRate);
  const half = kaiserHalfLength(ATTENUATION, (rate - 2 * band) / rate);
  return {
    filter: new OverlapSaveFilter(lowPass(cutoff, length, BETA, spacing)),
    spacing,
    up,
    down: rate / gcd(rate, toRate),
    phases: interpolators(up, half),
    taps: 2 * half,
  };
}

/** For each fraction phase / up: taps that give the signal so far after tap `half` − 1. */
function interpolators(up: number, half: number): Float64Array {
  const phases = new Float64Array(up * 2 * half);
  for (let phase = 0; phase < up; phase++) {
    const row = phases.subarray(phase * 2 * half, (phase + 1) * 2 * half);
    let sum = 0;
    for (let k = 0; k < row.length; k++) {
      const x = k - half + 1 - phase / up;
      row[k] = sinc(x) * kaiser(x / half, BETA);
      sum += row[k];
    }
    // 0 Hz keeps its level exactly.
    for (let k = 0; k < row.length; k++) row[k] /= sum;
  }
  return phases;
}

/** Writes output samples `start` to `end`. */
function convertBlock(
  { filter, spacing, up, down, phases, taps }: Conversion,
  samples: Float32Array,
  out: Float32Array,
  start: number,
  end: number,
): void {
  const from = Math.floor((start * down) / up) - taps / 2 + 1;
  const to = Math.floor(((end - 1) * down) / up) + taps / 2 + 1;
  const filtered = filter.apply(samples, spacing, from, to);
  const whole = Math.floor(down / up);
  const fraction = (down % up) * taps;
  let at = 0;
  let row = ((start * down) % up) * taps;
  for (let m = start; m < end; m++) {
    let sum = 0;
    for (let k = 0; k < taps; k++) sum += phases[row + k] * filtered[at + k];
    out[m] = sum;
    at += whole;
    row += fraction;
    if (row >= phases.length) {
      row -= phases.length;
      at += 1;
    }
  }
}

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}
