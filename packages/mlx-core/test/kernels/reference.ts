/** The fused ops in double precision, as plainly as their definitions read. */

/** An array as plain numbers: row-major data and its shape. */
export interface Plain {
  data: Float64Array;
  shape: readonly number[];
}

export const sizeOf = (shape: readonly number[]): number =>
  shape.reduce((product, size) => product * size, 1);

/** Applies a function of rows along the last axis. */
function byRows(x: Plain, of: (row: Float64Array) => Float64Array): Float64Array {
  const columns = x.shape.at(-1)!;
  const out = new Float64Array(x.data.length);
  for (let at = 0; at < out.length; at += columns) {
    out.set(of(x.data.subarray(at, at + columns)), at);
  }
  return out;
}

function softmaxOf(row: Float64Array): Float64Array {
  const largest = row.reduce((most, value) => Math.max(most, value), -Infinity);
  const powers = row.map((value) => Math.exp(value - largest));
  const total = powers.reduce((sum, value) => sum + value, 0);
  return powers.map((value) => value / total);
}

export const softmax = (x: Plain): Float64Array => byRows(x, softmaxOf);

/** Φ(x) by the series of erf below 3, by its continued fraction above (Abramowitz, Stegun 7.1). */
function normalDistribution(x: number): number {
  const z = Math.abs(x) / Math.SQRT2;
  let tail: number;
  if (z < 3) {
    let [term, sum] = [z, z];
    for (let n = 1; Math.abs(term) > 1e-18; n++) {
      term *= (-z * z) / n;
      sum += term / (2 * n + 1);
    }
    tail = 0.5 - sum / Math.sqrt(Math.PI);
  } else {
    let fraction = z;
    for (let n = 60; n > 0; n--) fraction = z + n / 2 / fraction;
    tail = Math.exp(-z * z) / (2 * Math.sqrt(Math.PI) * fraction);
  }
  return x < 0 ? tail : 1 - tail;
}

export function gelu(x: Plain): Float64Array {
  return x.data.map((value) => {
    if (Number.isNaN(value)) return NaN;
    if (!Number.isFinite(value)) return value > 0 ? Infinity : -0;
    return value * normalDistribution(value);
  });
}

export function layerNorm(x: Plain, weight?: Plain, bias?: Plain, eps = 1e-5): Float64Array {
  return byRows(x, (row) => {
    const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
    const variance = row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
    return row.map(
      (value, i) =>
        ((value - mean) / Math.sqrt(variance + eps)) * (weight?.data[i] ?? 1) +
        (bias?.data[i] ?? 0),
    );
  });
}

export function rmsNorm(x: Plain, weight?: Plain, eps = 1e-5): Float64Array {
  return byRows(x, (row) => {
    const square = row.reduce((sum, value) => sum + value ** 2, 0) / row.length;
    return row.map((value, i) => (value / Math.sqrt(square + eps)) * (weight?.data[i] ?? 1));
  });
}

export function swiglu(gate: Plain, up: Plain): Float64Array {
  return gate.data.map((value, i) => (value / (1 + Math.exp(-value))) * up.data[i]);
}

/** With the tanh approximation of gelu. */
export function geglu(gate: Plain, up: Plain): Float64Array {
  return gate.data.map((x, i) => {
    const inner = Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
    return 0.5 * x * (1 + Math.tanh(inner)) * up.data[i];
  });
}

export interface RopeOptions {
  dims: number;
  traditional?: boolean;
  /** Angle of pair i at position 1. */
  frequency: (i: number) => number;
  /** Position of the first row of a batch. */
  offset?: (batch: number) => number;
  scale?: number;
}

/** x [B, H, T, D]. */
export function rope(x: Plain, options: RopeOptions): Float64Array {
  const { dims, traditional = false, frequency, offset = () => 0, scale = 1 } = options;
  const [, heads, positions, columns] = x.shape;
  const half = dims / 2;
  const out = Float64Array.from(x.data);
  for (let row = 0; row < x.data.length / columns; row++) {
    const batch = Math.floor(row / positions / heads);
    const position = (offset(batch) + (row % positions)) * scale;
    for (let i = 0; i < half; i++) {
      const angle = position * frequency(i);
      const a = row * columns + (traditional ? 2 * i : i);
      const b = traditional ? a + 1 : a + half;
      out[a] = x.data[a] * Math.cos(angle) - x.data[b] * Math.sin(angle);
      out[b] = x.data[a] * Math.sin(angle) + x.data[b] * Math.cos(angle);
    }
  }
  return out;
}

/** A sum of products, and of their sizes: what rounding errors are proportional to. */
export interface Sums {
  values: Float64Array;
  sizes: Float64Array;
}

/** x · weightᵀ + bias over the last axis of x. */
export function linear(x: Plain, weight: Plain, bias?: Plain): Sums {
  const [columns, depth] = weight.shape;
  const rows = x.data.length / depth;
  const values = new Float64Array(rows * columns);
  const sizes = new Float64Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      let [sum, size] = [bias?.data[column] ?? 0, Math.abs(bias?.data[column] ?? 0)];
      for (let k = 0; k < depth; k++) {
        const product = x.data[row * depth + k] * weight.data[column * depth + k];
        sum += product;
        size += Math.abs(product);
      }
      values[row * columns + column] = sum;
      sizes[row * columns + column] = size;
    }
  }
  return { values, sizes };
}

/** x [B, T, C], weight [N, K, C] → [B, T', N]: the product of each window with the weights. */
export function conv1d(x: Plain, weight: Plain, stride: number, padding: number): Sums {
  const [batches, length, channels] = x.shape;
  const [columns, width] = weight.shape;
  const positions = Math.floor((length + 2 * padding - width) / stride) + 1;
  const depth = width * channels;
  const windows = new Float64Array(batches * positions * depth);
  for (let batch = 0; batch < batches; batch++) {
    for (let position = 0; position < positions; position++) {
      for (let k = 0; k < width; k++) {
        const from = position * stride + k - padding;
        if (from < 0 || from >= length) continue;
        const start = (batch * length + from) * channels;
        const target = (batch * positions + position) * depth + k * channels;
        windows.set(x.data.subarray(start, start + channels), target);
      }
    }
  }
  return linear(
    { data: windows, shape: [batches, positions, depth] },
    { data: weight.data, shape: [columns, depth] },
  );
}

export interface AttentionInputs {
  /** [B, H, T, D] */
  q: Plain;
  /** [B, Hkv, Tkv, D] */
  k: Plain;
  /** [B, Hkv, Tkv, Dv] */
  v: Plain;
  scale: number;
  /** What is added to the score of a query and a key: −∞ hides the key. */
  mask?: (batch: number, head: number, query: number, key: number) => number;
  softcap?: number;
  /** [H] */
  sinks?: Plain;
}

export function attention(inputs: AttentionInputs): Float64Array {
  const { q, k, v, scale, mask, softcap, sinks } = inputs;
  const [batches, heads, queries, dim] = q.shape;
  const [, kvHeads, keys, valueDim] = v.shape;
  const out = new Float64Array(batches * heads * queries * valueDim);
  for (let row = 0; row < batches * heads * queries; row++) {
    const query = row % queries;
    const head = Math.floor(row / queries) % heads;
    const batch = Math.floor(row / queries / heads);
    const kvRow = (batch * kvHeads + Math.floor(head / (heads / kvHeads))) * keys;
    const scores = Float64Array.from({ length: keys }, (_, key) => {
      const added = mask?.(batch, head, query, key) ?? 0;
      if (added === -Infinity) return added;
      let sum = 0;
      for (let d = 0; d < dim; d++) sum += q.data[row * dim + d] * k.data[(kvRow + key) * dim + d];
      const score = sum * scale;
      return (softcap ? softcap * Math.tanh(score / softcap) : score) + added;
    });
    const sink = sinks ? [sinks.data[head]] : [];
    softmaxOf(Float64Array.of(...scores, ...sink)).forEach((weight, key) => {
      if (weight === 0 || key === keys) return;
      for (let d = 0; d < valueDim; d++) {
        out[row * valueDim + d] += weight * v.data[(kvRow + key) * valueDim + d];
      }
    });
  }
  return out;
}
