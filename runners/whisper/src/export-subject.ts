/** Models for the command `export`: one that the user named, or a small one of random weights. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mx } from '@mlx-runners/mlx-core';
import { resolveModel } from '@mlx-runners/hub';
import type { ExportSubject, ModelOptions } from '@mlx-runners/runner';
import { loadWhisper } from './checkpoint.js';
import { parseConfig } from './config.js';
import { whisperExport } from './export.js';
import { manifest } from './manifest.js';
import { Whisper } from './model.js';

const tokenizerFiles = ['config.json', 'tokenizer.json', 'preprocessor_config.json'];

export async function loadForExport(options: ModelOptions): Promise<ExportSubject> {
  const folder = await resolveModel(options.model, {
    models: manifest.models,
    checkConfig: parseConfig,
  });
  if (options.device) mx.setDevice(options.device);
  const dtype = options.dtype ?? 'float32';
  const model = await loadWhisper(folder, dtype);
  const source = manifest.models[options.model];
  const present = tokenizerFiles.filter((name) => existsSync(join(folder, name)));
  return {
    description: {
      model: {
        id: options.model,
        ...(source && { revision: source.revision, license: source.license }),
      },
      dtype,
      files: Object.fromEntries(present.map((name) => [name, join(folder, name)])),
      ...whisperExport(model),
    },
    dispose: () => model.dispose(),
  };
}

// As many layers as whisper-base, so that the budgets of runner.json count its instructions.
const tinyConfig = {
  vocab_size: 60,
  num_mel_bins: 80,
  d_model: 16,
  encoder_layers: 6,
  encoder_attention_heads: 2,
  encoder_ffn_dim: 32,
  decoder_layers: 6,
  decoder_attention_heads: 2,
  decoder_ffn_dim: 32,
  max_source_positions: 20,
  max_target_positions: 24,
};

export function tinyForExport(): ExportSubject {
  const model = new Whisper(parseConfig(tinyConfig));
  const weights = [...model.parameters()].map(
    ([name, { shape }], i) => [name, mx.randomNormal(mx.randomKey(i), shape)] as const,
  );
  model.load(new Map(weights));
  return {
    description: { model: { id: 'tiny' }, dtype: 'float32', ...whisperExport(model) },
    dispose: () => model.dispose(),
  };
}
