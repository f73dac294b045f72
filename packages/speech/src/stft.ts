/** Short-time Fourier transforms, as the front ends of speech models need them. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { ShapeError } from '@mlx-runners/mlx-core/errors';

export interface StftOptions {
  nFft: number;
  /** Samples from one frame to the next. */
  hopLength: number;
  /** At most `nFft` values; a shorter window stands in the middle of its frame. */
  window: Float32Array;
  /**
   * What stands before and after the samples, `nFft` / 2 each, so that frame t is centred on sample
   * t · hopLength: the samples mirrored, or zeros. `none`: frames start at sample t · hopLength.
   */
  padding: 'reflect' | 'zero' | 'none';
}

// 30 s at Whisper's hop: recordings of hours go through in pieces, and so need little memory.
const BLOCK_FRAMES = 3000;

/** Hann window. Periodic is the form for spectra, symmetric (ends at 0) the one for filters. */
export function hannWindow(length: number, form: 'periodic' | 'symmetric'): Float32Array {
  const period = form === 'periodic' ? length : length - 1;
  return Float32Array.from({ length }, (_, n) => Math.sin((Math.PI * n) / period) ** 2);
}

/** How many frames `length` samples have. */
export function frameCount(length: number, { nFft, hopLength, padding }: StftOptions): number {
  const padded = padding === 'none' ? length : length + 2 * Math.floor(nFft / 2);
  return padded < nFft ? 0 : 1 + Math.floor((padded - nFft) / hopLength);
}

/**
 * Power spectrogram |STFT|² of `frames` frames (all of them unless given), passed through `project`
 * in blocks of frames: [frames, nFft / 2 + 1] in, [frames, …] out, float32.
 *
 * @throws ShapeError where the window is longer than a frame or there are not so many frames
 */
export function powerSpectrogram(
  samples: Float32Array,
  options: StftOptions,
  project: (power: MxArray) => MxArray = (power) => power,
  frames: number = frameCount(samples.length, options),
): MxArray {
  const { nFft, hopLength, window } = options;
  if (window.length > nFft) {
    throw new ShapeError(`A window of ${window.length} does not fit frames of ${nFft} samples.`);
  }
  if (frames > frameCount(samples.length, options)) {
    throw new ShapeError(`${samples.length} samples have fewer than ${frames} frames.`);
  }
  if (frames === 0) return project(mx.zeros([0, Math.floor(nFft / 2) + 1]));
  return mx.tidy(() => {
    const signal = mx.array(pad(samples, options));
    const frameWindow = mx.array(centred(window, nFft));
    const blocks: MxArray[] = [];
    for (let first = 0; first < frames; first += BLOCK_FRAMES) {
      const count = Math.min(BLOCK_FRAMES, frames - first);
      const block = mx.asStrided(signal, [count, nFft], [hopLength, 1], first * hopLength);
      blocks.push(project(mx.square(mx.abs(mx.rfft(mx.multiply(block, frameWindow))))));
    }
    return blocks.length === 1 ? blocks[0] : mx.concatenate(blocks, 0);
  });
}

function centred(window: Float32Array, length: number): Float32Array {
  const frame = new Float32Array(length);
  frame.set(window, Math.floor((length - window.length) / 2));
  return frame;
}

function pad(samples: Float32Array, { nFft, padding }: StftOptions): Float32Array {
  if (padding === 'none') return samples;
  const half = Math.floor(nFft / 2);
  const padded = new Float32Array(samples.length + 2 * half);
  padded.set(samples, half);
  if (padding === 'zero' || samples.length === 0) return padded;
  for (let i = 1; i <= half; i++) {
    padded[half - i] = samples[mirror(i, samples.length)]!;
    padded[half + samples.length - 1 + i] =
      samples[mirror(samples.length - 1 + i, samples.length)]!;
  }
  return padded;
}

/** Index of a signal mirrored at both ends without repeating them, as often as needed. */
function mirror(index: number, length: number): number {
  if (length === 1) return 0;
  const period = 2 * (length - 1);
  const within = index % period;
  return within < length ? within : period - within;
}
