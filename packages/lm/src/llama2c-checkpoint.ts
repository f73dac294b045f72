/**
 * Llamas in PyTorch's files, with the names of Meta's own code, as llama2.c trains them
 * (github.com/karpathy/llama2.c, model.py and train.py).
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CheckpointError, mx, MxArray, quoted } from '@mlx-runners/mlx-core';
import { fitted, readJsonFile, readPyTorch, type PyTorchValue } from '@mlx-runners/nn';
import { z } from 'zod';
import type { DecoderCheckpoint } from './checkpoint.js';
import { size } from './config.js';

const parameters = z.object({
  dim: size,
  n_layers: size,
  n_heads: size,
  n_kv_heads: size.nullish(),
  norm_eps: z.number().positive().default(1e-5),
  rope_theta: z.number().positive().default(10_000),
  max_seq_len: size.default(2048),
});

type Parameters = z.infer<typeof parameters>;

const layerNames: Readonly<Record<string, string>> = {
  'attention.wq': 'self_attn.q_proj',
  'attention.wk': 'self_attn.k_proj',
  'attention.wv': 'self_attn.v_proj',
  'attention.wo': 'self_attn.o_proj',
  'feed_forward.w1': 'mlp.gate_proj',
  'feed_forward.w2': 'mlp.down_proj',
  'feed_forward.w3': 'mlp.up_proj',
  attention_norm: 'input_layernorm',
  ffn_norm: 'post_attention_layernorm',
};

const outerNames: Readonly<Record<string, string>> = {
  tok_embeddings: 'model.embed_tokens',
  norm: 'model.norm',
  output: 'lm_head',
};

/** Tables that follow from the configuration, which older files have. */
const computed = new Set(['freqs_cis', 'freqs_cos', 'freqs_sin', 'rope.freqs']);

/** `layers.3.attention.wq.weight` → `model.layers.3.self_attn.q_proj.weight` */
function decoderName(name: string): string | undefined {
  const [, layer, part] = /^(?:layers\.(\d+)\.)?(\w+(?:\.\w+)?)\.weight$/.exec(name) ?? [];
  if (part === undefined) return undefined;
  const names = layer === undefined ? outerNames : layerNames;
  if (!Object.hasOwn(names, part)) return undefined;
  return layer === undefined
    ? `${names[part]}.weight`
    : `model.layers.${layer}.${names[part]}.weight`;
}

/** By the decoder's names. */
function decoderTensors(model: PyTorchValue, path: string): Map<string, MxArray> {
  if (!(model instanceof Map)) throw new CheckpointError(`${path} has no dict of tensors.`);
  const tensors = new Map<string, MxArray>();
  for (const [key, tensor] of model) {
    // What torch.compile puts before the names of a compiled model.
    const given = typeof key === 'string' ? key.replace(/^_orig_mod\./, '') : '';
    if (!(tensor instanceof MxArray)) {
      throw new CheckpointError(`${path} has ${quoted(given)} among its tensors, which is none.`);
    }
    if (computed.has(given)) continue;
    const name = decoderName(given);
    if (name === undefined) {
      throw new CheckpointError(`${path} has a tensor ${quoted(given)}, which no Llama here has.`);
    }
    tensors.set(name, tensor);
  }
  return tensors;
}

function isDict(value: PyTorchValue | undefined): value is Map<PyTorchValue, PyTorchValue> {
  return value instanceof Map;
}

/** `model_args` of the file, or the params.json beside it. */
function parametersOf(saved: ReadonlyMap<PyTorchValue, PyTorchValue>, path: string): Parameters {
  const what = 'the parameters of a Llama';
  const own = saved.get('model_args');
  if (isDict(own)) {
    return fitted(Object.fromEntries(own), parameters, `${path}, model_args`, what);
  }
  const file = join(dirname(path), 'params.json');
  if (existsSync(file)) return fitted(readJsonFile(file), parameters, file, what);
  throw new CheckpointError(`${path} has no model_args, and there is no params.json beside it.`);
}

/**
 * Reads a checkpoint of llama2.c: a dict with `model` and `model_args`, or the tensors alone with a params.json
 * beside the file. An output matrix that is the table of embeddings is left out.
 *
 * @throws CheckpointError for what is none
 */
export function readLlama2cCheckpoint(path: string): DecoderCheckpoint {
  // What is not the model, as the state of an optimizer, is freed.
  return mx.tidy(() => {
    const saved = readPyTorch(path);
    if (!isDict(saved)) throw new CheckpointError(`${path} has no dict of tensors.`);
    const tensors = decoderTensors(saved.get('model') ?? saved, path);
    const output = tensors.get('lm_head.weight');
    const embeddings = tensors.get('model.embed_tokens.weight');
    const tied = !output || (embeddings && mx.arrayEqual(output, embeddings).itemSync() === 1);
    if (tied) tensors.delete('lm_head.weight');
    const config = configOf(parametersOf(saved, path), tensors);
    return { source: path, config, tensors, packingOf: () => undefined };
  });
}

/** The config.json that says the same. */
function configOf(
  { dim, n_layers, n_heads, n_kv_heads, norm_eps, rope_theta, max_seq_len }: Parameters,
  tensors: ReadonlyMap<string, MxArray>,
): Record<string, unknown> {
  return {
    model_type: 'llama',
    vocab_size: tensors.get('model.embed_tokens.weight')?.shape[0],
    hidden_size: dim,
    // A multiple of multiple_of near 8/3 of the width: the matrices say which.
    intermediate_size: tensors.get('model.layers.0.mlp.gate_proj.weight')?.shape[0],
    num_hidden_layers: n_layers,
    num_attention_heads: n_heads,
    num_key_value_heads: n_kv_heads ?? n_heads,
    rms_norm_eps: norm_eps,
    rope_theta,
    rope_traditional: true,
    max_position_embeddings: max_seq_len,
    tie_word_embeddings: !tensors.has('lm_head.weight'),
    // Between the stories that llama2.c trains on is only the token that each begins with: it ends them, too.
    eos_token_id: [2, 1],
  };
}
