/**
 * Qwen 3 (Yang et al. 2025): a Llama whose queries and keys are normed head by head before they are rotated.
 * Heads may be wider than the model's width divided by their number.
 */
import type { MxArray } from '@mlx-runners/mlx-core';
import { Linear, mergeHeads, Module, RmsNorm, splitHeads, type LinearLayer } from '@mlx-runners/nn';
import { Decoder, type Position } from './decoder.js';
import type { LayerCache } from './kv-cache.js';
import { LlamaLayer, llamaSizes, type LlamaSizes, type SelfAttention } from './llama.js';
import { Rope } from './rope.js';

class Qwen3Attention extends Module implements SelfAttention {
  q_proj: LinearLayer;
  k_proj: LinearLayer;
  v_proj: LinearLayer;
  o_proj: LinearLayer;
  q_norm: RmsNorm;
  k_norm: RmsNorm;
  readonly #sizes: LlamaSizes;
  readonly #rope: Rope;

  constructor(sizes: LlamaSizes, rope: Rope) {
    super();
    const { hidden_size: width, num_attention_heads: heads, kvHeads, headSize } = sizes;
    const bias = sizes.attention_bias;
    this.q_proj = new Linear(width, heads * headSize, { bias });
    this.k_proj = new Linear(width, kvHeads * headSize, { bias });
    this.v_proj = new Linear(width, kvHeads * headSize, { bias });
    this.o_proj = new Linear(heads * headSize, width, { bias });
    this.q_norm = new RmsNorm(headSize, sizes.rms_norm_eps);
    this.k_norm = new RmsNorm(headSize, sizes.rms_norm_eps);
    this.#sizes = sizes;
    this.#rope = rope;
  }

  forward(x: MxArray, position: Position, cache: LayerCache): MxArray {
    const { num_attention_heads: heads, kvHeads, headSize } = this.#sizes;
    const q = this.q_norm.forward(splitHeads(this.q_proj.forward(x), heads));
    const k = this.k_norm.forward(splitHeads(this.k_proj.forward(x), kvHeads));
    const v = splitHeads(this.v_proj.forward(x), kvHeads);
    const [turnedQ, turnedK] = [q, k].map((each) => this.#rope.forward(each, position));
    const attended = cache.attend(turnedQ, turnedK, v, { scale: headSize ** -0.5 });
    return this.o_proj.forward(mergeHeads(attended));
  }
}

export class Qwen3 extends Decoder {
  /**
   * @param json a config.json
   * @throws CheckpointError naming the fields that are missing or wrong
   */
  constructor(json: unknown, source = 'config.json') {
    const sizes = llamaSizes(json, source);
    const rope = new Rope(sizes.rope, { size: sizes.headSize });
    const layers = sizes.layouts.map(() => new LlamaLayer(sizes, new Qwen3Attention(sizes, rope)));
    super(sizes, layers, sizes.layouts, [rope]);
  }
}
