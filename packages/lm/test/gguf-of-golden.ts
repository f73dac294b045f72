/** GGUF files with a golden's weights. */
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { ggufBytes, type GgufEntry, type GgufFileTensor } from '@mlx-runners/test-fixtures';

/** ggml's numbers. */
const types = { F32: 0, Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, Q8_0: 8, Q4_K: 12, Q5_K: 13 } as const;

const names: readonly (readonly [RegExp, string])[] = [
  [/^model\.embed_tokens/, 'token_embd'],
  [/^model\.norm/, 'output_norm'],
  [/^lm_head/, 'output'],
  [/^model\.layers\./, 'blk.'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/mlp\.(\w+)_proj/, 'ffn_$1'],
  [/input_layernorm/, 'attn_norm'],
  [/post_attention_layernorm/, 'ffn_norm'],
];

interface Golden {
  /** The config.json of a Llama. */
  config: Readonly<Record<string, unknown>>;
  weights: ReadonlyMap<string, MxArray>;
  /** Of the matrices. */
  format: keyof typeof types;
  /** More metadata, as a tokenizer's, or in the place of those of the config. */
  metadata?: readonly (readonly [string, GgufEntry])[];
}

/** As llama.cpp's converter writes it: rows of q and k turned to pairs. */
export function ggufOf({ config, weights, format, metadata = [] }: Golden): Buffer {
  const integers = {
    embedding_length: 'hidden_size',
    block_count: 'num_hidden_layers',
    feed_forward_length: 'intermediate_size',
    'attention.head_count': 'num_attention_heads',
    'attention.head_count_kv': 'num_key_value_heads',
    context_length: 'max_position_embeddings',
  };
  const rope = config.rope_parameters as { rope_theta: number } | undefined;
  const floats = {
    'attention.layer_norm_rms_epsilon': config.rms_norm_eps,
    'rope.freq_base': rope?.rope_theta ?? config.rope_theta,
  };
  const heads = { q: config.num_attention_heads, k: config.num_key_value_heads };
  const tensors = [...weights].map(([given, tensor]): GgufFileTensor => {
    const name = names.reduce((text, [from, to]) => text.replace(from, to), given);
    const [, part] = /attn_([qk])\.weight/.exec(name) ?? [];
    const turned = part ? inPairs(tensor, heads[part as 'q' | 'k'] as number) : tensor;
    const isMatrix = tensor.ndim === 2;
    const data = isMatrix ? mx.blockQuantize(turned.astype('float32'), format) : turned;
    return {
      name,
      type: isMatrix ? types[format] : types.F32,
      sizes: tensor.shape.toReversed(),
      data: new Uint8Array(bytesOf(isMatrix ? data : data.astype('float32'))),
    };
  });
  const own: [string, GgufEntry][] = [
    ['general.architecture', { type: 'string', value: 'llama' }],
    ...Object.entries(integers).map(([key, field]): [string, GgufEntry] => [
      `llama.${key}`,
      { type: 'uint32', value: config[field] },
    ]),
    ...Object.entries(floats).map(([key, value]): [string, GgufEntry] => [
      `llama.${key}`,
      { type: 'float32', value },
    ]),
  ];
  return ggufBytes([...new Map([...own, ...metadata])], tensors);
}

function bytesOf(tensor: MxArray): ArrayBuffer {
  const data = tensor.dataSync() as Float32Array | Uint8Array;
  return data.slice().buffer;
}

function inPairs(matrix: MxArray, heads: number): MxArray {
  const [rows, columns] = matrix.shape;
  return matrix
    .reshape([heads, 2, rows / heads / 2, columns])
    .transpose([0, 2, 1, 3])
    .reshape([rows, columns]);
}
