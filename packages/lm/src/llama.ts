/**
 * Llama (Touvron et al. 2023; Llama 3: Grattafiori et al. 2024), and its like: SmolLM2, Mistral's dense
 * models, and Qwen 2 (Yang et al. 2024), which adds biases to the projections of queries, keys and values.
 *
 * Pre-norm blocks: x += o(attention(norm(x))); x += down(silu(gate(h)) · up(h)) with h = norm(x). Queries share keys
 * and values in groups; Llama 3.1 and later stretch the rotation's long waves (rope.ts).
 *
 * Shapes: B sequences, T tokens, d width, H heads of size D.
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import {
  fitted,
  Linear,
  mergeHeads,
  Module,
  RmsNorm,
  splitHeads,
  type LinearLayer,
} from '@mlx-runners/nn';
import { z } from 'zod';
import { headFields, headSizes, size, sizeFields, windowFields, windowsOf } from './config.js';
import { Decoder, type DecoderLayer, type Position } from './decoder.js';
import type { LayerCache, LayerLayout } from './kv-cache.js';
import { Rope, ropeFields, ropeParameters, type RopeParameters } from './rope.js';

const schema = z.object({
  ...sizeFields,
  ...ropeFields,
  intermediate_size: size,
  ...headFields,
  hidden_act: z.literal('silu').default('silu'),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  ...windowFields,
  rope_traditional: z.boolean().default(false),
});

export interface LlamaSizes extends z.infer<typeof schema> {
  kvHeads: number;
  headSize: number;
  biases: { qkv: boolean; output: boolean; mlp: boolean };
  rope: RopeParameters;
  layouts: readonly LayerLayout[];
}

/** @throws CheckpointError naming the fields that are missing or wrong */
export function llamaSizes(json: unknown, source: string): LlamaSizes {
  const config = fitted(json, schema, source, 'the configuration of a Llama');
  const { attention_bias, num_hidden_layers } = config;
  const [kvHeads, headSize] = headSizes(config, source);
  const windows = windowsOf(config);
  return {
    ...config,
    kvHeads,
    headSize,
    biases: {
      qkv: attention_bias || config.model_type === 'qwen2',
      output: attention_bias,
      mlp: config.mlp_bias,
    },
    rope: ropeParameters(config, source),
    layouts: Array.from({ length: num_hidden_layers }, (_, i) => ({
      kvHeads,
      headSize,
      window: windows(i),
    })),
  };
}

class LlamaAttention extends Module implements SelfAttention {
  q_proj: LinearLayer;
  k_proj: LinearLayer;
  v_proj: LinearLayer;
  o_proj: LinearLayer;
  readonly #sizes: LlamaSizes;
  readonly #rope: Rope;

  constructor(sizes: LlamaSizes, rope: Rope) {
    super();
    const { hidden_size: width, num_attention_heads: heads, kvHeads, headSize, biases } = sizes;
    this.q_proj = new Linear(width, heads * headSize, { bias: biases.qkv });
    this.k_proj = new Linear(width, kvHeads * headSize, { bias: biases.qkv });
    this.v_proj = new Linear(width, kvHeads * headSize, { bias: biases.qkv });
    this.o_proj = new Linear(heads * headSize, width, { bias: biases.output });
    this.#sizes = sizes;
    this.#rope = rope;
  }

  forward(x: MxArray, position: Position, cache: LayerCache): MxArray {
    const { num_attention_heads: heads, kvHeads, headSize } = this.#sizes;
    const q = this.#rope.forward(splitHeads(this.q_proj.forward(x), heads), position);
    const k = this.#rope.forward(splitHeads(this.k_proj.forward(x), kvHeads), position);
    const v = splitHeads(this.v_proj.forward(x), kvHeads);
    return this.o_proj.forward(mergeHeads(cache.attend(q, k, v, { scale: headSize ** -0.5 })));
  }
}

export class LlamaMlp extends Module {
  gate_proj: LinearLayer;
  up_proj: LinearLayer;
  down_proj: LinearLayer;

  constructor({ hidden_size: width, intermediate_size: ffn, biases }: LlamaSizes) {
    super();
    this.gate_proj = new Linear(width, ffn, { bias: biases.mlp });
    this.up_proj = new Linear(width, ffn, { bias: biases.mlp });
    this.down_proj = new Linear(ffn, width, { bias: biases.mlp });
  }

  forward(x: MxArray): MxArray {
    return this.down_proj.forward(mx.swiglu(this.gate_proj.forward(x), this.up_proj.forward(x)));
  }
}

export interface SelfAttention extends Module {
  /** x [B, T, d] → [B, T, d] */
  forward(x: MxArray, position: Position, cache: LayerCache): MxArray;
}

export class LlamaLayer extends Module implements DecoderLayer {
  self_attn: SelfAttention;
  mlp: LlamaMlp;
  input_layernorm: RmsNorm;
  post_attention_layernorm: RmsNorm;

  constructor(sizes: LlamaSizes, attention: SelfAttention) {
    super();
    const { hidden_size, rms_norm_eps } = sizes;
    this.self_attn = attention;
    this.mlp = new LlamaMlp(sizes);
    this.input_layernorm = new RmsNorm(hidden_size, rms_norm_eps);
    this.post_attention_layernorm = new RmsNorm(hidden_size, rms_norm_eps);
  }

  forward(x: MxArray, position: Position, cache: LayerCache): MxArray {
    const attended = this.self_attn.forward(this.input_layernorm.forward(x), position, cache);
    const [sum, normed] = this.post_attention_layernorm.forwardSum(x, attended);
    return sum.add(this.mlp.forward(normed));
  }
}

export class Llama extends Decoder {
  /**
   * @param json a config.json
   * @throws CheckpointError naming the fields that are missing or wrong
   */
  constructor(json: unknown, source = 'config.json') {
    const sizes = llamaSizes(json, source);
    const { headSize, rope_traditional: traditional } = sizes;
    const rope = new Rope(sizes.rope, { size: headSize, traditional });
    const layers = sizes.layouts.map(() => new LlamaLayer(sizes, new LlamaAttention(sizes, rope)));
    super(sizes, layers, sizes.layouts, [rope]);
  }
}
