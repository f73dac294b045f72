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
import { fitted, Module, RmsNorm } from '@mlx-runners/nn';
import { z } from 'zod';
import {
  checkLayerTypes,
  headFields,
  headSizes,
  size,
  sizeFields,
  windowFields,
  windowsOf,
} from './config.js';
import { Decoder, type DecoderLayer, type Position } from './decoder.js';
import { GatedMlp } from './gated-mlp.js';
import type { LayerCache, LayerLayout } from './kv-cache.js';
import { Rope, ropeFields, ropeParameters, type RopeParameters } from './rope.js';
import { SelfAttention } from './self-attention.js';

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
  rope: RopeParameters;
  layouts: readonly LayerLayout[];
}

/** @throws CheckpointError naming the fields that are missing or wrong */
export function llamaSizes(json: unknown, source: string): LlamaSizes {
  const config = fitted(json, schema, source, 'the configuration of a Llama');
  const { num_hidden_layers } = config;
  const [kvHeads, headSize] = headSizes(config, source);
  checkLayerTypes(config.layer_types, num_hidden_layers, source);
  const windows = windowsOf(config);
  return {
    ...config,
    kvHeads,
    headSize,
    rope: ropeParameters(config, source),
    layouts: Array.from({ length: num_hidden_layers }, (_, i) => ({
      kvHeads,
      headSize,
      window: windows(i),
    })),
  };
}

export class LlamaLayer extends Module implements DecoderLayer {
  self_attn: SelfAttention;
  mlp: GatedMlp;
  input_layernorm: RmsNorm;
  post_attention_layernorm: RmsNorm;

  constructor(sizes: LlamaSizes, attention: SelfAttention) {
    super();
    const { hidden_size, rms_norm_eps } = sizes;
    this.self_attn = attention;
    this.mlp = new GatedMlp(sizes, (gate, up) => mx.swiglu(gate, up), { bias: sizes.mlp_bias });
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
    const { headSize, rope_traditional: traditional, attention_bias: outputBias } = sizes;
    const rope = new Rope(sizes.rope, { size: headSize, traditional });
    const biases = outputBias || sizes.model_type === 'qwen2';
    const layers = sizes.layouts.map(
      () => new LlamaLayer(sizes, new SelfAttention(sizes, rope, { biases, outputBias })),
    );
    super(sizes, layers, sizes.layouts, [rope]);
  }
}
