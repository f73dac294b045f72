/** The attention of cached-layers.ts in plain loops, over tokens one by one. */
import { scale } from './cached-layers.js';

/** One token's rows: of 4 queries, 2 keys and 2 values of 32 numbers. */
export interface PlainToken {
  position: number;
  q: Float32Array;
  k: Float32Array;
  v: Float32Array;
}

const softcap = 3;

/**
 * Random tokens. Keys and values are eighths between -1 and 7/8, both of which every row has, so that all
 * storages but q8 hold them as they are.
 */
export function plainToken(seed: number, position: number): PlainToken {
  let state = (seed * 1000 + position + 1) * 2654435761;
  const next = (): number => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return (state ^ (state >>> 13)) >>> 0;
  };
  const eighths = (heads: number): Float32Array =>
    Float32Array.from({ length: heads * 32 }, (_, i) => {
      if (i % 32 < 2) return i % 32 === 0 ? -1 : 7 / 8;
      return ((next() >>> 8) % 16) / 8 - 1;
    });
  const q = Float32Array.from({ length: 4 * 32 }, () => (next() / 2 ** 32) * 6 - 3);
  return { position, q, k: eighths(2), v: eighths(2) };
}

const row = (x: Float32Array, head: number): Float32Array => x.subarray(head * 32, head * 32 + 32);

function attended(
  query: Float32Array,
  keys: readonly Float32Array[],
  values: readonly Float32Array[],
): number[] {
  const weights = keys.map((key) => {
    const dot = key.reduce((sum, x, i) => sum + x * query[i], 0) * scale;
    return Math.exp(softcap * Math.tanh(dot / softcap));
  });
  const sum = weights.reduce((a, b) => a + b, 0);
  return Array.from(values[0], (_, d) =>
    values.reduce((mean, value, i) => mean + (weights[i] / sum) * value[d], 0),
  );
}

/** What a token gets that sees these, itself included: by output, [heads, size] in a row. */
export function plainOutputs(
  token: PlainToken,
  seen: readonly PlainToken[],
): Record<string, number[]> {
  const within = (window: number): PlainToken[] =>
    seen.filter(({ position }) => position > token.position - window);
  const wide = ({ k, v }: PlainToken): Float32Array =>
    Float32Array.from([...row(v, 0), ...row(k, 1)]);
  const near = (window: number, factor: number): number[] =>
    [0, 1, 2, 3].flatMap((head) => {
      const keys = within(window).map(({ k }) => row(k, 0));
      const query = row(token.q, head).map((x) => x * factor);
      return attended(query, keys, within(window).map(wide));
    });
  const all = [0, 1, 2, 3].flatMap((head) => {
    const shared = head >> 1;
    const keys = seen.map(({ k }) => row(k, shared));
    return attended(
      row(token.q, head),
      keys,
      seen.map(({ v }) => row(v, shared)),
    );
  });
  return { all, near: near(5, 1), nearer: near(3, 0.5) };
}
