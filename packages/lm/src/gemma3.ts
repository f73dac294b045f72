/**
 * Gemma 3's text model (Gemma Team 2025).
 *
 * What is unusual: four norms a layer, two of which come before the residual is added; queries and keys are
 * normed head by head; five layers that see a window of keys follow one another, then one that sees all, each kind
 * with a rotation of its own; embeddings are scaled by √d rounded to bfloat16; the checkpoint's norm weights lack 1.
 *
 * Shapes: B sequences, T tokens, d width, H heads of size D.
 */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { fitted, Module, RmsNorm } from '@mlx-runners/nn';
import { z } from 'zod';
import { checkLayerTypes, headFields, headSizes, size, sizeFields } from './config.js';
import { Decoder, type DecoderLayer, type Position } from './decoder.js';
import { GatedMlp } from './gated-mlp.js';
import type { LayerCache, LayerLayout } from './kv-cache.js';
import { Rope, ropeFields, ropeParameters, type RopeParameters } from './rope.js';
import { SelfAttention } from './self-attention.js';

const softcap = z.number().positive().nullish();

const schema = z.object({
  ...sizeFields,
  ...headFields,
  ...ropeFields,
  intermediate_size: size,
  head_dim: size.default(256),
  hidden_activation: z.literal('gelu_pytorch_tanh').default('gelu_pytorch_tanh'),
  query_pre_attn_scalar: z.number().positive().default(256),
  attn_logit_softcapping: softcap,
  final_logit_softcapping: softcap,
  sliding_window: size.default(4096),
  sliding_window_pattern: z.int().positive().default(6),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
  rope_local_base_freq: z.number().positive().default(10_000),
  rope_theta: z.number().positive().default(1_000_000),
});

interface GemmaSizes extends z.infer<typeof schema> {
  kvHeads: number;
  headSize: number;
  layouts: readonly LayerLayout[];
  ropes: { full: RopeParameters; sliding: RopeParameters };
}

const bothRopes = z.object({
  full_attention: z.record(z.string(), z.unknown()),
  sliding_attention: z.record(z.string(), z.unknown()),
});

/** Old configurations have two fields for the bases, new ones a rope for each kind of layer. */
function ropesOf(config: z.infer<typeof schema>, source: string): GemmaSizes['ropes'] {
  const both = bothRopes.safeParse(config.rope_parameters);
  if (both.success) {
    const { full_attention, sliding_attention } = both.data;
    return {
      full: ropeParameters({ rope_parameters: full_attention }, source),
      sliding: ropeParameters({ rope_parameters: sliding_attention }, source),
    };
  }
  return {
    full: ropeParameters(config, source),
    sliding: { rope_type: 'default', rope_theta: config.rope_local_base_freq },
  };
}

function gemmaSizes(json: unknown, source: string): GemmaSizes {
  const config = fitted(json, schema, source, 'the configuration of a Gemma 3');
  const [kvHeads, headSize] = headSizes(config, source);
  const {
    sliding_window,
    sliding_window_pattern: pattern,
    num_hidden_layers,
    layer_types,
  } = config;
  checkLayerTypes(layer_types, num_hidden_layers, source);
  const slides = (i: number): boolean =>
    layer_types ? layer_types[i] === 'sliding_attention' : (i + 1) % pattern !== 0;
  const layouts = Array.from({ length: num_hidden_layers }, (_, i) => ({
    kvHeads,
    headSize,
    window: slides(i) ? sliding_window : undefined,
  }));
  return { ...config, kvHeads, headSize, layouts, ropes: ropesOf(config, source) };
}

class Gemma3Layer extends Module implements DecoderLayer {
  self_attn: SelfAttention;
  mlp: GatedMlp;
  input_layernorm: RmsNorm;
  post_attention_layernorm: RmsNorm;
  pre_feedforward_layernorm: RmsNorm;
  post_feedforward_layernorm: RmsNorm;

  constructor(sizes: GemmaSizes, rope: Rope) {
    super();
    const norm = (): RmsNorm => new RmsNorm(sizes.hidden_size, sizes.rms_norm_eps);
    this.self_attn = new SelfAttention(sizes, rope, {
      headNormEps: sizes.rms_norm_eps,
      scale: sizes.query_pre_attn_scalar ** -0.5,
      softcap: sizes.attn_logit_softcapping ?? undefined,
    });
    this.mlp = new GatedMlp(sizes, (gate, up) => mx.geglu(gate, up));
    this.input_layernorm = norm();
    this.post_attention_layernorm = norm();
    this.pre_feedforward_layernorm = norm();
    this.post_feedforward_layernorm = norm();
  }

  forward(x: MxArray, position: Position, cache: LayerCache): MxArray {
    const attended = this.self_attn.forward(this.input_layernorm.forward(x), position, cache);
    const normed = this.post_attention_layernorm.forward(attended);
    const [sum, fed] = this.pre_feedforward_layernorm.forwardSum(x, normed);
    return sum.add(this.post_feedforward_layernorm.forward(this.mlp.forward(fed)));
  }
}

export class Gemma3 extends Decoder {
  readonly #scale: number;
  readonly #softcap: number | undefined;

  /**
   * @param json a config.json
   * @throws CheckpointError naming the fields that are missing or wrong
   */
  constructor(json: unknown, source = 'config.json') {
    const sizes = gemmaSizes(json, source);
    const full = new Rope(sizes.ropes.full, { size: sizes.headSize });
    const sliding = new Rope(sizes.ropes.sliding, { size: sizes.headSize });
    const layers = sizes.layouts.map(
      ({ window }) => new Gemma3Layer(sizes, window === undefined ? full : sliding),
    );
    super(sizes, layers, sizes.layouts, [full, sliding]);
    this.#scale = Math.sqrt(sizes.hidden_size);
    this.#softcap = sizes.final_logit_softcapping ?? undefined;
  }

  override embed(ids: MxArray): MxArray {
    // A number takes the dtype of activations: 16-bit ones have it rounded, as when they were trained.
    return super.embed(ids).multiply(this.#scale);
  }

  override project(hidden: MxArray): MxArray {
    const logits = super.project(hidden);
    const cap = this.#softcap;
    return cap === undefined ? logits : logits.divide(cap).tanh().multiply(cap);
  }
}

/** Norm weights as the layers multiply by them: Hugging Face's and MLX's checkpoints lack 1. */
export function addOneToNorms(tensors: Map<string, MxArray>): Map<string, MxArray> {
  return new Map(
    [...tensors].map(([name, tensor]) => {
      if (!name.endsWith('norm.weight')) return [name, tensor];
      const sum = mx.tidy(() => tensor.astype('float32').add(1));
      tensor.dispose();
      return [name, sum];
    }),
  );
}
