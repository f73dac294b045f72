/** Decoder families by the `model_type` of their config.json. */
import { CheckpointError, quoted, type MxArray } from '@mlx-runners/mlx-core';
import type { Decoder } from './decoder.js';
import { addOneToNorms, Gemma3 } from './gemma3.js';
import { Llama } from './llama.js';
import { Qwen3 } from './qwen3.js';

export interface Family {
  /** Builds the network that a config.json describes, without weights. */
  build(config: unknown, source?: string): Decoder;
  /** Weights of a Hugging Face or MLX checkpoint as the network takes them. */
  sanitize(tensors: Map<string, MxArray>): Map<string, MxArray>;
}

const asTheyAre: Family['sanitize'] = (tensors) => tensors;

const llama: Family = { build: (...args) => new Llama(...args), sanitize: asTheyAre };

const families = new Map<string, Family>([
  ['llama', llama],
  ['mistral', llama],
  ['qwen2', llama],
  ['qwen3', { build: (...args) => new Qwen3(...args), sanitize: asTheyAre }],
  ['gemma3_text', { build: (...args) => new Gemma3(...args), sanitize: addOneToNorms }],
]);

/** @throws CheckpointError for a configuration of no known family */
export function familyOf(config: unknown, source = 'config.json'): Family {
  const type = (config as { model_type?: unknown } | null)?.model_type;
  const family = typeof type === 'string' ? families.get(type) : undefined;
  if (family) return family;
  throw new CheckpointError(
    `${source} is of a model of type ${quoted(type)}, which is not known: ${[...families.keys()].join(', ')} are.`,
  );
}
