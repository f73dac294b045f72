/** Models for `export`: one that the user named, or a small one of random weights. */
import { modelOrigin, type TransferOptions } from '@mlx-runners/hub';
import {
  decoderSubject,
  randomDecoderSubject,
  type DecoderSubjectOptions,
} from '@mlx-runners/lm/command-line';
import type { ExportSubject } from '@mlx-runners/runner';
import { manifest } from './manifest.js';
import { findLanguageModel } from './pipeline.js';

/** @param options `model`: an id, a short name, or the absolute path of a folder or file */
export async function loadForExport(
  { model, ...options }: DecoderSubjectOptions & { model: string },
  transfer: TransferOptions = {},
): Promise<ExportSubject> {
  const path = await findLanguageModel(model, transfer);
  return await decoderSubject(
    path,
    { model: modelOrigin(manifest.models, model) },
    options,
    transfer.signal,
  );
}

/** Of the make of Llama 3.2, with two layers. */
const tinyConfig = {
  model_type: 'llama',
  vocab_size: 128,
  hidden_size: 256,
  intermediate_size: 256,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  head_dim: 64,
  rms_norm_eps: 1e-5,
  max_position_embeddings: 512,
  tie_word_embeddings: true,
  rope_parameters: {
    rope_type: 'llama3',
    rope_theta: 500_000,
    factor: 32,
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 64,
  },
};

export function tinyForExport(options: DecoderSubjectOptions = {}): ExportSubject {
  const subject = randomDecoderSubject(tinyConfig, { model: { id: 'tiny' } }, options);
  // The budgets are those of the usual program.
  const isUsual = options.cache !== 'in-graph' && options.logitsToKeep === undefined;
  return { ...subject, budgets: isUsual ? manifest.exportBudgets : undefined };
}
