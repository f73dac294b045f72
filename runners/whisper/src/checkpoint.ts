/** Whisper's weights by the names of model.ts, from Hugging Face's or CTranslate2's files. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { readCheckpoint } from '@mlx-runners/nn';
import { configFromTensors, parseConfig, type WhisperConfig } from './config.js';
import { Whisper } from './model.js';

type Tensors = Map<string, MxArray>;

const convolution = /^encoder\.conv[12]\.weight$/;

/**
 * Hugging Face's tensors by our names: without the prefix `model.`, without the output projection
 * (it is the token embedding), convolutions from [out, in, k] to MLX's [out, k, in], in memory as
 * well, so that no window copies them.
 */
export function sanitize(tensors: ReadonlyMap<string, MxArray>): Tensors {
  const renamed: Tensors = new Map();
  for (const [name, tensor] of tensors) {
    if (name === 'proj_out.weight') continue;
    const own = name.replace(/^model\./, '');
    renamed.set(own, convolution.test(own) ? tensor.swapaxes(1, 2).contiguous() : tensor);
  }
  return renamed;
}

// CTranslate2's module → ours, for the modules that are renamed one to one.
const modules: readonly (readonly [RegExp, string])[] = [
  [
    /^(encoder|decoder)\/layer_(\d+)\/self_attention\/layer_norm$/,
    '$1.layers.$2.self_attn_layer_norm',
  ],
  [/^decoder\/layer_(\d+)\/attention\/layer_norm$/, 'decoder.layers.$1.encoder_attn_layer_norm'],
  [/^(encoder|decoder)\/layer_(\d+)\/ffn\/layer_norm$/, '$1.layers.$2.final_layer_norm'],
  [/^(encoder|decoder)\/layer_(\d+)\/ffn\/linear_0$/, '$1.layers.$2.fc1'],
  [/^(encoder|decoder)\/layer_(\d+)\/ffn\/linear_1$/, '$1.layers.$2.fc2'],
  [/^(encoder|decoder)\/layer_(\d+)\/self_attention\/linear_1$/, '$1.layers.$2.self_attn.out_proj'],
  [/^decoder\/layer_(\d+)\/attention\/linear_0$/, 'decoder.layers.$1.encoder_attn.q_proj'],
  [/^decoder\/layer_(\d+)\/attention\/linear_2$/, 'decoder.layers.$1.encoder_attn.out_proj'],
  [/^(encoder|decoder)\/layer_norm$/, '$1.layer_norm'],
  [/^encoder\/(conv[12])$/, 'encoder.$1'],
  [/^decoder\/embeddings$/, 'decoder.embed_tokens'],
];

// Modules whose rows are several projections one after the other.
const fused: readonly (readonly [RegExp, string, readonly string[]])[] = [
  [
    /^(encoder|decoder)\/layer_(\d+)\/self_attention\/linear_0$/,
    '$1.layers.$2.self_attn',
    ['q_proj', 'k_proj', 'v_proj'],
  ],
  [
    /^decoder\/layer_(\d+)\/attention\/linear_1$/,
    'decoder.layers.$1.encoder_attn',
    ['k_proj', 'v_proj'],
  ],
];

const parameters: Readonly<Record<string, string>> = {
  weight: 'weight',
  bias: 'bias',
  gamma: 'weight',
  beta: 'bias',
};

/** Settings that CTranslate2 keeps among the variables, and what they have to be. */
const settings: Readonly<Record<string, readonly number[] | undefined>> = {
  'decoder/activation': undefined,
  'encoder/activation': undefined,
  'decoder/alibi': [0],
  'decoder/alignment_heads': undefined,
  'decoder/alignment_layer': undefined,
  'decoder/pre_norm': [1],
  'decoder/scale_embeddings': [0],
  'decoder/start_from_zero_embedding': undefined,
  'encoder/num_heads': undefined,
  'decoder/num_heads': undefined,
};

function renamed(name: string): string | undefined {
  const match = modules.find(([pattern]) => pattern.test(name));
  return match && name.replace(match[0], match[1]);
}

function splitRows(tensor: MxArray, parts: number): MxArray[] {
  const pieces = mx.split(tensor, parts, 0);
  tensor.dispose();
  return pieces;
}

/** CTranslate2's tensors by Hugging Face's names. */
export function fromCTranslate2(variables: ReadonlyMap<string, MxArray>): {
  tensors: Tensors;
  heads: { encoder: number; decoder: number };
} {
  const tensors: Tensors = new Map();
  const unknown: string[] = [];
  for (const [variable, tensor] of variables) {
    if (variable in settings) continue;
    if (variable.endsWith('/position_encodings/encodings')) {
      tensors.set(variable.replace(/\/.*/, '.embed_positions.weight'), tensor);
      continue;
    }
    const cut = variable.lastIndexOf('/');
    const name = variable.slice(0, cut);
    const parameter = parameters[variable.slice(cut + 1)];
    const target = parameter && renamed(name);
    const joint = fused.find(([pattern]) => pattern.test(name));
    if (target) {
      tensors.set(`${target}.${parameter}`, tensor);
    } else if (parameter && joint) {
      const [pattern, owner, projections] = joint;
      for (const [i, piece] of splitRows(tensor, projections.length).entries()) {
        // CTranslate2 fills the bias that keys don't have with zeros.
        if (projections[i] === 'k_proj' && parameter === 'bias') piece.dispose();
        else tensors.set(`${name.replace(pattern, owner)}.${projections[i]}.${parameter}`, piece);
      }
    } else {
      unknown.push(variable);
    }
  }
  if (unknown.length > 0) {
    throw new CheckpointError(
      `The CTranslate2 model is no Whisper: it has ${unknown.slice(0, 5).join(', ')}.`,
    );
  }
  return { tensors, heads: readSettings(variables) };
}

function readSettings(variables: ReadonlyMap<string, MxArray>): {
  encoder: number;
  decoder: number;
} {
  const value = (name: string): number | undefined => variables.get(name)?.itemSync();
  for (const [name, allowed] of Object.entries(settings)) {
    const found = value(name);
    if (allowed && found !== undefined && !allowed.includes(found)) {
      throw new CheckpointError(
        `The CTranslate2 model has ${name} = ${found}; Whisper has ${allowed.join()}.`,
      );
    }
  }
  const heads = {
    encoder: value('encoder/num_heads') ?? 0,
    decoder: value('decoder/num_heads') ?? 0,
  };
  for (const name of Object.keys(settings)) variables.get(name)?.dispose();
  return heads;
}

export function readJson(folder: string, name: string): unknown {
  const path = join(folder, name);
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as unknown;
  } catch (error) {
    throw new CheckpointError(`${path} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}

/**
 * Reads a model folder and loads its weights.
 *
 * @param dtype what the weights are computed in
 * @throws CheckpointError when files are missing, unreadable or don't fit together
 */
export async function loadWhisper(folder: string, dtype: Dtype): Promise<Whisper> {
  const { format, tensors } = readCheckpoint(folder);
  let config: WhisperConfig;
  let weights: Tensors;
  if (format === 'ctranslate2') {
    const converted = fromCTranslate2(tensors);
    config = configFromTensors(converted.tensors, converted.heads);
    weights = sanitize(converted.tensors);
  } else {
    config = parseConfig(readJson(folder, 'config.json'), join(folder, 'config.json'));
    weights = sanitize(tensors);
  }
  const model = new Whisper(config);
  model.load(weights, { dtype });
  await mx.eval(...model.parameters().values());
  return model;
}
