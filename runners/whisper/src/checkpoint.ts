/** Whisper's weights by the names of model.ts, from Hugging Face's or CTranslate2's files. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CheckpointError, mx, quoted, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { readCheckpoint, readJsonFile } from '@mlx-runners/nn';
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
    if (renamed.has(own)) throw new CheckpointError(`The checkpoint has ${own} twice.`);
    // One of another rank stays as it is, to be refused for its shape.
    const isConvolution = convolution.test(own) && tensor.ndim === 3;
    renamed.set(own, isConvolution ? tensor.swapaxes(1, 2).contiguous() : tensor);
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

const parameters: ReadonlyMap<string, string> = new Map([
  ['weight', 'weight'],
  ['bias', 'bias'],
  ['gamma', 'weight'],
  ['beta', 'bias'],
]);

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

function splitRows(variable: string, tensor: MxArray, parts: number): MxArray[] {
  if (tensor.ndim === 0 || tensor.shape[0] % parts !== 0) {
    throw new CheckpointError(
      `${variable} [${tensor.shape.join(', ')}] can't be cut into ${parts} projections.`,
    );
  }
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
    if (Object.hasOwn(settings, variable)) continue;
    if (variable.endsWith('/position_encodings/encodings')) {
      tensors.set(variable.replace(/\/.*/, '.embed_positions.weight'), tensor);
      continue;
    }
    const cut = variable.lastIndexOf('/');
    const name = variable.slice(0, cut);
    const parameter = parameters.get(variable.slice(cut + 1));
    const target = parameter && renamed(name);
    const joint = fused.find(([pattern]) => pattern.test(name));
    if (target) {
      tensors.set(`${target}.${parameter}`, tensor);
    } else if (parameter && joint) {
      const [pattern, owner, projections] = joint;
      for (const [i, piece] of splitRows(variable, tensor, projections.length).entries()) {
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
      `The CTranslate2 model is no Whisper: it has ${unknown.slice(0, 5).map(quoted).join(', ')}.`,
    );
  }
  return { tensors, heads: readSettings(variables) };
}

function readSettings(variables: ReadonlyMap<string, MxArray>): {
  encoder: number;
  decoder: number;
} {
  const value = (name: string): number | undefined => {
    const variable = variables.get(name);
    return variable?.size === 1 ? variable.reshape([]).itemSync() : undefined;
  };
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

const WEIGHTS = ['model.safetensors', 'model.safetensors.index.json', 'model.bin'];

/**
 * Tells what a folder lacks, before anything is read.
 *
 * @throws CheckpointError when it is no folder, or not whole
 */
export function checkModelFolder(folder: string): void {
  const holds =
    'a model folder holds config.json, tokenizer.json and model.safetensors (or its shards and ' +
    "their model.safetensors.index.json), or CTranslate2's model.bin and tokenizer.json; an export " +
    'also has a manifest.json.';
  if (!statSync(folder).isDirectory()) {
    throw new CheckpointError(`${folder} is a file: ${holds}`);
  }
  const has = (name: string): boolean => existsSync(join(folder, name));
  const weights = WEIGHTS.find(has);
  const lacking = [
    ...(has('tokenizer.json') ? [] : ['tokenizer.json']),
    ...(has('config.json') || weights === 'model.bin' ? [] : ['config.json']),
    ...(weights ? [] : ['the weights']),
  ];
  if (lacking.length > 0) {
    throw new CheckpointError(`${folder} lacks ${lacking.join(' and ')}: ${holds}`);
  }
}

function readWeights(folder: string): { config: WhisperConfig; weights: Tensors } {
  const { format, tensors } = readCheckpoint(folder);
  if (format === 'safetensors') {
    const path = join(folder, 'config.json');
    return { config: parseConfig(readJsonFile(path), path), weights: sanitize(tensors) };
  }
  const converted = fromCTranslate2(tensors);
  const path = join(folder, 'model.bin');
  return {
    config: configFromTensors(converted.tensors, converted.heads, path),
    weights: sanitize(converted.tensors),
  };
}

/**
 * Reads a model folder and loads its weights.
 *
 * @param dtype what the weights are computed in
 * @throws CheckpointError when files are missing, unreadable or don't fit together
 */
export async function loadWhisper(folder: string, dtype: Dtype): Promise<Whisper> {
  const model = mx.tidy(() => {
    const { config, weights } = readWeights(folder);
    const network = new Whisper(config);
    network.load(weights, { dtype });
    return network;
  });
  try {
    await mx.eval(...model.parameters().values());
  } catch (error) {
    model.dispose();
    throw error;
  }
  return model;
}
