/** Language models in GGUF files: metadata to config.json, tensor names to the decoders' own. */
import { CheckpointError, mx, quoted, type MxArray } from '@mlx-runners/mlx-core';
import type { Packing } from '@mlx-runners/nn';
import type { DecoderCheckpoint } from './checkpoint.js';

type Metadata = ReturnType<typeof mx.loadGguf>['metadata'];

/** What of an architecture is not the same in all of them. */
interface Architecture {
  model_type: string;
  /** Parts of names that mean something else than in a Llama. */
  names?: Readonly<Record<string, string>>;
  /** Fields beside those that all have. */
  config?: (field: (name: string) => unknown) => Record<string, unknown>;
}

const architectures: Readonly<Record<string, Architecture>> = {
  llama: {
    model_type: 'llama',
    // The converter reorders the rows of q and k to this kind of rotation.
    config: () => ({ rope_traditional: true }),
  },
  qwen2: { model_type: 'qwen2' },
  qwen3: { model_type: 'qwen3' },
  gemma3: {
    model_type: 'gemma3_text',
    names: {
      ffn_norm: 'pre_feedforward_layernorm',
      post_attention_norm: 'post_attention_layernorm',
      post_ffw_norm: 'post_feedforward_layernorm',
    },
    config: (field) => ({
      sliding_window: field('attention.sliding_window'),
      rope_local_base_freq: field('rope.freq_base_swa'),
      // The largest model alone scales by its width.
      query_pre_attn_scalar: field('block_count') === 62 ? 168 : field('attention.key_length'),
      final_logit_softcapping: field('final_logit_softcapping'),
    }),
  },
};

const layerNames: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
};

const outerNames: Readonly<Record<string, string>> = {
  token_embd: 'model.embed_tokens',
  output_norm: 'model.norm',
  output: 'lm_head',
};

const ropeDivisors = 'rope_freqs.weight';

/** `blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`; undefined for names it doesn't know. */
function decoderName(name: string, { names = {} }: Architecture): string | undefined {
  const [, layer, part, kind] = /^(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)$/.exec(name) ?? [];
  if (part === undefined) return undefined;
  if (layer === undefined) {
    return Object.hasOwn(outerNames, part) ? `${outerNames[part]}.${kind}` : undefined;
  }
  const known = { ...layerNames, ...names };
  return Object.hasOwn(known, part) ? `model.layers.${layer}.${known[part]}.${kind}` : undefined;
}

function architectureOf(metadata: Metadata, path: string): [string, Architecture] {
  const name = metadata.get('general.architecture');
  if (typeof name === 'string' && Object.hasOwn(architectures, name)) {
    return [name, architectures[name]];
  }
  const known = Object.keys(architectures).join(', ');
  throw new CheckpointError(
    `${path} is of the architecture ${quoted(name)}, which is not known: ${known} are.`,
  );
}

/** The config.json that the metadata amount to. */
function configOf(
  metadata: Metadata,
  [name, architecture]: [string, Architecture],
  facts: { vocabulary: number | undefined; tied: boolean; divisors: number[] | undefined },
): Record<string, unknown> {
  const field = (key: string): unknown => sameForAll(metadata.get(`${name}.${key}`));
  const theta = field('rope.freq_base') ?? 10_000;
  const config: Record<string, unknown> = {
    model_type: architecture.model_type,
    vocab_size: facts.vocabulary,
    hidden_size: field('embedding_length'),
    num_hidden_layers: field('block_count'),
    intermediate_size: field('feed_forward_length'),
    num_attention_heads: field('attention.head_count'),
    num_key_value_heads: field('attention.head_count_kv'),
    head_dim: field('attention.key_length') ?? field('rope.dimension_count'),
    rms_norm_eps: field('attention.layer_norm_rms_epsilon'),
    max_position_embeddings: field('context_length'),
    tie_word_embeddings: facts.tied,
    rope_theta: theta,
    ...(facts.divisors
      ? { rope_parameters: { rope_type: 'divided', divisors: facts.divisors } }
      : scalingOf(field)),
    ...architecture.config?.(field),
  };
  return Object.fromEntries(Object.entries(config).filter(([, value]) => value !== undefined));
}

/** Some files give a number for each layer; one stands for all of them where they are equal. */
function sameForAll(value: unknown): unknown {
  if (!ArrayBuffer.isView(value)) return value;
  const [first, ...others] = Array.from(value as unknown as ArrayLike<number>);
  return others.every((each) => each === first) ? first : value;
}

function scalingOf(field: (key: string) => unknown): Record<string, unknown> {
  const type = field('rope.scaling.type');
  if (type === undefined || type === 'none') return {};
  return { rope_scaling: { rope_type: type, factor: field('rope.scaling.factor') } };
}

/**
 * Reads a GGUF file, its further parts included. Matrices in blocks stay what they are.
 *
 * @throws CheckpointError for architectures and tensors that are not known
 */
export function readGgufCheckpoint(path: string): DecoderCheckpoint {
  const { metadata, tensors: stored } = mx.loadGguf(path);
  const architecture = architectureOf(metadata, path);
  const divisors = stored.get(ropeDivisors)?.array;
  const tensors = new Map<string, MxArray>();
  const packings = new Map<string, Packing>();
  for (const [given, { format, shape, array }] of stored) {
    if (given === ropeDivisors) continue;
    const name = decoderName(given, architecture[1]);
    if (name === undefined) {
      throw new CheckpointError(
        `${path} has a tensor ${quoted(given)}, which no decoder here has.`,
      );
    }
    tensors.set(name, array);
    if (array.dtype === 'uint8') {
      const layer = name.replace(/\.\w+$/, '');
      packings.set(layer, { format, shape, rowBytes: array.shape.at(-1)! });
    }
  }
  const config = configOf(metadata, architecture, {
    vocabulary: stored.get('token_embd.weight')?.shape[0],
    tied: !stored.has('output.weight'),
    divisors: divisors && Array.from(divisors.dataSync(), Number),
  });
  return { source: path, config, tensors, packingOf: (layer) => packings.get(layer), metadata };
}
