/** Scaled dot-product attention over several heads (Vaswani et al. 2017, section 3.2). */
import { mx, type MxArray } from '@mlx-runners/mlx-core';

/** x [batch, time, heads · size] → [batch, heads, time, size], without copying. */
export function splitHeads(x: MxArray, heads: number): MxArray {
  const [batch, time, width] = x.shape;
  return x.reshape([batch, time, heads, width / heads]).transpose([0, 2, 1, 3]);
}

/** x [batch, heads, time, size] → [batch, time, heads · size] */
export function mergeHeads(x: MxArray): MxArray {
  const [batch, heads, time, size] = x.shape;
  return x.transpose([0, 2, 1, 3]).reshape([batch, time, heads * size]);
}

export interface AttentionOptions {
  /** Factor on q · kᵀ; 1 / √size unless given. */
  scale?: number;
  /** Each query sees only the keys up to its own place, counted from the end. */
  causal?: boolean;
  /** Added to the scores when of floats, or true where a key may be seen; broadcast to [batch, heads, time, keys]. */
  mask?: MxArray;
}

/**
 * softmax(q · kᵀ · scale + mask) · v.
 *
 * @param q [batch, heads, time, size]
 * @param k [batch, kvHeads, keys, size]; heads is a multiple of kvHeads
 * @param v [batch, kvHeads, keys, size]
 * @returns [batch, heads, time, size]
 */
export function attention(
  q: MxArray,
  k: MxArray,
  v: MxArray,
  { scale = q.shape[3] ** -0.5, causal = false, mask }: AttentionOptions = {},
): MxArray {
  const mode = causal ? 'causal' : '';
  return mx.scaledDotProductAttention(q, k, v, scale, mode, mask);
}
