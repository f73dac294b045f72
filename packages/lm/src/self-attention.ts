/** The attention of decoder layers: queries share keys and values in groups (Ainslie et al. 2023). */
import type { MxArray } from '@mlx-runners/mlx-core';
import { Linear, mergeHeads, Module, RmsNorm, splitHeads, type LinearLayer } from '@mlx-runners/nn';
import type { Position } from './decoder.js';
import type { LayerCache } from './kv-cache.js';
import type { Rope } from './rope.js';

export interface AttentionSizes {
  hidden_size: number;
  num_attention_heads: number;
  kvHeads: number;
  /** Size of a head. */
  headSize: number;
}

export interface SelfAttentionOptions {
  /** Of the projections of queries, keys and values; none unless given. */
  biases?: boolean;
  /** Of the last projection; none unless given. */
  outputBias?: boolean;
  /** The eps of norms of each head of queries and keys, before they are rotated; no norms unless given. */
  headNormEps?: number;
  /** Factor on q · kᵀ: 1 / √headSize unless given. */
  scale?: number;
  /** Scores become softcap · tanh(score / softcap). */
  softcap?: number;
}

/** Shapes: B sequences, T tokens, d width. */
export class SelfAttention extends Module {
  q_proj: LinearLayer;
  k_proj: LinearLayer;
  v_proj: LinearLayer;
  o_proj: LinearLayer;
  q_norm: RmsNorm | undefined;
  k_norm: RmsNorm | undefined;
  readonly #sizes: AttentionSizes;
  readonly #rope: Rope;
  readonly #scale: number;
  readonly #softcap: number | undefined;

  constructor(sizes: AttentionSizes, rope: Rope, options: SelfAttentionOptions = {}) {
    super();
    const { hidden_size: width, num_attention_heads: heads, kvHeads, headSize } = sizes;
    const { biases: bias = false, outputBias = false, headNormEps: eps } = options;
    this.q_proj = new Linear(width, heads * headSize, { bias });
    this.k_proj = new Linear(width, kvHeads * headSize, { bias });
    this.v_proj = new Linear(width, kvHeads * headSize, { bias });
    this.o_proj = new Linear(heads * headSize, width, { bias: outputBias });
    if (eps !== undefined) {
      this.q_norm = new RmsNorm(headSize, eps);
      this.k_norm = new RmsNorm(headSize, eps);
    }
    this.#sizes = sizes;
    this.#rope = rope;
    this.#scale = options.scale ?? headSize ** -0.5;
    this.#softcap = options.softcap;
  }

  /** x [B, T, d] → [B, T, d] */
  forward(x: MxArray, position: Position, cache: LayerCache): MxArray {
    const { num_attention_heads: heads, kvHeads } = this.#sizes;
    const turned = (projected: MxArray, count: number, norm: RmsNorm | undefined): MxArray => {
      const split = splitHeads(projected, count);
      return this.#rope.forward(norm?.forward(split) ?? split, position);
    };
    const q = turned(this.q_proj.forward(x), heads, this.q_norm);
    const k = turned(this.k_proj.forward(x), kvHeads, this.k_norm);
    const v = splitHeads(this.v_proj.forward(x), kvHeads);
    const attended = cache.attend(q, k, v, { scale: this.#scale, softcap: this.#softcap });
    return this.o_proj.forward(mergeHeads(attended));
  }
}
