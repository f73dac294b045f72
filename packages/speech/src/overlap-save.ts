/**
 * Long symmetric FIR filters, applied by FFT (the overlap-save method; Oppenheim & Schafer,
 * "Discrete-Time Signal Processing", 8.7), and their design by Kaiser windows (ibid., 7.5).
 */

/** β of the Kaiser window that gives `attenuation` dB (at least 50) of stopband rejection. */
export function kaiserBeta(attenuation: number): number {
  return 0.1102 * (attenuation - 8.7);
}

/** Half the length, in samples, of a Kaiser filter with a transition of `width` cycles a sample. */
export function kaiserHalfLength(attenuation: number, width: number): number {
  return Math.ceil((attenuation - 7.95) / (2.285 * 2 * Math.PI * width) / 2);
}

/** Kaiser window at x, −1..1, up to a factor: whoever windows a filter scales its sum anyway. */
export function kaiser(x: number, beta: number): number {
  return besselI0(beta * Math.sqrt(Math.max(0, 1 - x * x)));
}

/** sin(πx)/(πx) */
export function sinc(x: number): number {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

/** Modified Bessel function of the first kind, order 0, by its power series. */
function besselI0(x: number): number {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-17; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/**
 * One half of a symmetric low-pass filter: taps at 0, 1, … `halfLength`, gain `gain` at 0 Hz.
 *
 * @param cutoff middle of the transition band, in cycles a sample (0..0.5)
 */
export function lowPass(cutoff: number, halfLength: number, beta: number, gain: number) {
  const taps = Float64Array.from({ length: halfLength + 1 }, (_, k) => {
    return sinc(2 * cutoff * k) * kaiser(k / halfLength, beta);
  });
  const sum = taps.reduce((total, tap) => total + 2 * tap, -taps[0]);
  return taps.map((tap) => (tap * gain) / sum);
}

/** Filters pieces of signals with one symmetric filter, without delay. */
export class OverlapSaveFilter {
  readonly #half: number;
  readonly #size: number;
  readonly #spectrum: Float64Array;
  readonly #cos: Float64Array;
  readonly #sin: Float64Array;
  readonly #re: Float64Array;
  readonly #im: Float64Array;

  /** @param taps one half of the filter, as `lowPass` makes it */
  constructor(taps: Float64Array) {
    this.#half = taps.length - 1;
    // At least eight times the filter, so that blocks overlap by a quarter at most; a power of 4.
    const size = 4 ** Math.ceil(Math.log2(8 * taps.length) / 2);
    this.#size = size;
    const angles = Float64Array.from({ length: size }, (_, k) => (2 * Math.PI * k) / size);
    this.#cos = angles.map(Math.cos);
    this.#sin = angles.map(Math.sin);
    this.#re = new Float64Array(size);
    this.#im = new Float64Array(size);
    // A symmetric filter around index 0 has a real spectrum; 1/size is the inverse FFT's share.
    taps.forEach((tap, k) => {
      this.#re[k] = tap / size;
      if (k > 0) this.#re[size - k] = tap / size;
    });
    this.#forward();
    this.#spectrum = this.#re.slice();
  }

  /**
   * Samples `from` to `to` of the filtered signal. The signal is `samples` with `spacing` − 1 zeros
   * after each one, and zero outside; `from` may be negative and `to` past the end.
   */
  apply(samples: Float32Array, spacing: number, from: number, to: number): Float32Array {
    const out = new Float32Array(to - from);
    const step = this.#size - 2 * this.#half;
    // Two blocks at a time, as real and imaginary part: the filter's real spectrum mixes neither.
    for (let start = from; start < to; start += 2 * step) {
      this.#load(this.#re, samples, spacing, start - this.#half);
      this.#load(this.#im, samples, spacing, start + step - this.#half);
      this.#forward();
      this.#multiply();
      this.#inverse();
      this.#store(this.#re, out, start - from, step);
      this.#store(this.#im, out, start - from + step, step);
    }
    return out;
  }

  #multiply(): void {
    const re = this.#re;
    const im = this.#im;
    const spectrum = this.#spectrum;
    for (let k = 0; k < spectrum.length; k++) {
      re[k] *= spectrum[k];
      im[k] *= spectrum[k];
    }
  }

  #load(block: Float64Array, samples: Float32Array, spacing: number, start: number): void {
    block.fill(0);
    const first = Math.max(0, Math.ceil(start / spacing));
    const end = Math.min(samples.length, Math.ceil((start + block.length) / spacing));
    for (let i = first, at = first * spacing - start; i < end; i++, at += spacing) {
      block[at] = samples[i]!;
    }
  }

  #store(block: Float64Array, out: Float32Array, start: number, step: number): void {
    const end = Math.min(out.length, start + step);
    for (let i = start, at = this.#half; i < end; i++, at++) out[i] = block[at]!;
  }

  /** Radix-4 FFT, natural order in, digit-reversed order out (decimation in frequency). */
  #forward(): void {
    const re = this.#re;
    const im = this.#im;
    const cos = this.#cos;
    const sin = this.#sin;
    for (let quarter = re.length / 4, stride = 1; quarter >= 1; quarter /= 4, stride *= 4) {
      for (let start = 0; start < re.length; start += 4 * quarter) {
        for (let a = start, k = 0; a < start + quarter; a++, k += stride) {
          const b = a + quarter;
          const c = b + quarter;
          const d = c + quarter;
          const r0 = re[a] + re[c];
          const i0 = im[a] + im[c];
          const r1 = re[a] - re[c];
          const i1 = im[a] - im[c];
          const r2 = re[b] + re[d];
          const i2 = im[b] + im[d];
          const r3 = im[b] - im[d];
          const i3 = re[d] - re[b];
          re[a] = r0 + r2;
          im[a] = i0 + i2;
          re[b] = (r1 + r3) * cos[k] + (i1 + i3) * sin[k];
          im[b] = (i1 + i3) * cos[k] - (r1 + r3) * sin[k];
          re[c] = (r0 - r2) * cos[2 * k] + (i0 - i2) * sin[2 * k];
          im[c] = (i0 - i2) * cos[2 * k] - (r0 - r2) * sin[2 * k];
          re[d] = (r1 - r3) * cos[3 * k] + (i1 - i3) * sin[3 * k];
          im[d] = (i1 - i3) * cos[3 * k] - (r1 - r3) * sin[3 * k];
        }
      }
    }
  }

  /** Inverse of #forward, times the size: digit-reversed order in, natural order out. */
  #inverse(): void {
    const re = this.#re;
    const im = this.#im;
    const cos = this.#cos;
    const sin = this.#sin;
    for (let quarter = 1, stride = re.length / 4; stride >= 1; quarter *= 4, stride /= 4) {
      for (let start = 0; start < re.length; start += 4 * quarter) {
        for (let a = start, k = 0; a < start + quarter; a++, k += stride) {
          const b = a + quarter;
          const c = b + quarter;
          const d = c + quarter;
          const rb = re[b] * cos[k] - im[b] * sin[k];
          const ib = im[b] * cos[k] + re[b] * sin[k];
          const rc = re[c] * cos[2 * k] - im[c] * sin[2 * k];
          const ic = im[c] * cos[2 * k] + re[c] * sin[2 * k];
          const rd = re[d] * cos[3 * k] - im[d] * sin[3 * k];
          const id = im[d] * cos[3 * k] + re[d] * sin[3 * k];
          const r0 = re[a] + rc;
          const i0 = im[a] + ic;
          const r1 = re[a] - rc;
          const i1 = im[a] - ic;
          re[a] = r0 + rb + rd;
          im[a] = i0 + ib + id;
          re[b] = r1 - ib + id;
          im[b] = i1 + rb - rd;
          re[c] = r0 - rb - rd;
          im[c] = i0 - ib - id;
          re[d] = r1 + ib - id;
          im[d] = i1 - rb + rd;
        }
      }
    }
  }
}
