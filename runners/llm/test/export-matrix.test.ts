/** Tiny models of each make, quantised, with each kind of cache: exported, loaded again, and continued. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DecoderModel,
  decoderProgram,
  familyOf,
  Sampler,
  type DecoderProgramOptions,
} from '@mlx-runners/lm';
import { randomWeights } from '@mlx-runners/nn';
import { exportModel, loadExport } from '@mlx-runners/program';
import { afterAll, describe, expect, it } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'llm-matrix-'));
afterAll(() => rmSync(folder, { recursive: true }));

const common = {
  vocab_size: 128,
  hidden_size: 128,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  head_dim: 64,
  rms_norm_eps: 1e-6,
  max_position_embeddings: 256,
  tie_word_embeddings: true,
};

const configs: Readonly<Record<string, object>> = {
  'Llama 3.2': {
    ...common,
    model_type: 'llama',
    num_key_value_heads: 2,
    rope_theta: 500_000,
    rope_scaling: {
      rope_type: 'llama3',
      factor: 32,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    },
  },
  'Qwen 3': { ...common, model_type: 'qwen3', num_key_value_heads: 2, rope_theta: 1_000_000 },
  'Gemma 3': {
    ...common,
    model_type: 'gemma3_text',
    num_key_value_heads: 1,
    query_pre_attn_scalar: 64,
    // Shorter than what is read and written, so that the ring turns.
    sliding_window: 8,
    layer_types: ['sliding_attention', 'full_attention'],
    rope_theta: 1_000_000,
    rope_local_base_freq: 10_000,
  },
};

const programs: Readonly<Record<string, DecoderProgramOptions>> = {
  'off-graph': { cache: 'off-graph' },
  'in-graph, custom ops': { cache: 'in-graph' },
  'in-graph, ops of MLX': { cache: 'in-graph', useCustomSdpa: false, useCustomKvCache: false },
};

const prompt = [1, 17, 99, 4, 63, 28];

async function greedy(path: string): Promise<number[]> {
  using model = new DecoderModel(loadExport(path), path);
  using sequence = model.sequence();
  const tokens = await sequence.continue(prompt, {
    sampler: new Sampler({ temperature: 0 }),
    stopIds: new Set(),
    maxTokens: 10,
  });
  return tokens.map(({ id }) => id);
}

describe.each(Object.keys(configs))('%s', (name) => {
  it.each(['4w', 'nvfp4'] as const)(
    'gives the same tokens with every cache in %s',
    async (type) => {
      const texts: Record<string, number[]> = {};
      for (const [kind, options] of Object.entries(programs)) {
        using decoder = familyOf(configs[name]).build(configs[name]);
        decoder.load(randomWeights(decoder));
        const path = join(folder, `${name} ${type} ${kind}`);
        await exportModel(path, {
          model: { id: name },
          dtype: 'float32',
          qlinear: { type },
          qembedding: { type },
          ...decoderProgram(decoder, { ...options, maxContextLength: 64, prefillChunk: 8 }),
        });
        texts[kind] = await greedy(path);
      }
      const [first, ...others] = Object.values(texts);
      expect(first).toHaveLength(10);
      for (const other of others) expect(other).toEqual(first);
    },
  );
});
