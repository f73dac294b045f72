/**
 * Made-up audio: mono float32 samples in [-1, 1]. Levels are RMS in dBFS against an RMS of 1, so a
 * sine that just touches ±1 has -3.01 dBFS. Equal arguments give equal samples on every machine.
 */

export interface SignalOptions {
  /** Hz; 16000 unless told. */
  readonly sampleRate?: number;
  /** RMS level in dBFS; -20 unless told. */
  readonly dbfs?: number;
}

export interface NoiseOptions extends SignalOptions {
  readonly seed: number;
}

/**
 * Uniform pseudo-random numbers in [0, 1): mulberry32 (Tommy Ettinger, public domain), whose whole
 * state is one 32-bit integer.
 */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Zeros. */
export function silence(
  seconds: number,
  { sampleRate = 16000 }: { sampleRate?: number } = {},
): Float32Array {
  return new Float32Array(sampleCount(seconds, sampleRate));
}

/** A sine of `frequency` Hz that starts at phase 0. */
export function sine(
  seconds: number,
  frequency: number,
  { sampleRate = 16000, dbfs = -20 }: SignalOptions = {},
): Float32Array {
  const amplitude = Math.SQRT2 * 10 ** (dbfs / 20);
  const step = (2 * Math.PI * frequency) / sampleRate;
  return clip(
    Float64Array.from({ length: sampleCount(seconds, sampleRate) }, (_, n) => Math.sin(step * n)),
    amplitude,
  );
}

/** Noise of equal power per Hz, uniformly distributed. */
export function whiteNoise(seconds: number, options: NoiseOptions): Float32Array {
  const random = randomNumbers(options.seed);
  return noise(seconds, options, () => 2 * random() - 1);
}

/**
 * Noise of equal power per octave (-3 dB per octave): white noise through Paul Kellet's "economy"
 * filter, whose error stays within 0.5 dB above 10 Hz at 44.1 kHz.
 */
export function pinkNoise(seconds: number, options: NoiseOptions): Float32Array {
  const random = randomNumbers(options.seed);
  let low = 0;
  let middle = 0;
  let high = 0;
  return noise(seconds, options, () => {
    const white = 2 * random() - 1;
    low = 0.99765 * low + white * 0.099046;
    middle = 0.963 * middle + white * 0.2965164;
    high = 0.57 * high + white * 1.0526913;
    return low + middle + high + white * 0.1848;
  });
}

/** Draws samples and brings them to the level asked for exactly, but for what clipping takes. */
function noise(
  seconds: number,
  { sampleRate = 16000, dbfs = -20 }: NoiseOptions,
  draw: () => number,
): Float32Array {
  const samples = Float64Array.from({ length: sampleCount(seconds, sampleRate) }, draw);
  const power = samples.reduce((sum, x) => sum + x * x, 0) / samples.length;
  return clip(samples, 10 ** (dbfs / 20) / Math.sqrt(power));
}

function clip(samples: Float64Array, gain: number): Float32Array {
  return Float32Array.from(samples, (x) => Math.min(1, Math.max(-1, x * gain)));
}

function sampleCount(seconds: number, sampleRate: number): number {
  if (!(seconds >= 0) || !(sampleRate > 0)) {
    throw new RangeError(`Need seconds >= 0 and a sample rate > 0, got ${seconds}, ${sampleRate}`);
  }
  return Math.round(seconds * sampleRate);
}
