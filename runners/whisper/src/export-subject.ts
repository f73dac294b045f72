/** Models for the command `export`: one that the user named, or a small one of random weights. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mx, throwIfAborted } from '@mlx-runners/mlx-core';
import { modelOrigin, resolveModel, type TransferOptions } from '@mlx-runners/hub';
import { randomWeights } from '@mlx-runners/nn';
import type { ExportDescription } from '@mlx-runners/program';
import type { ExportSubject, ModelOptions } from '@mlx-runners/runner';
import { checkModelFolder, loadWhisper } from './checkpoint.js';
import { parseConfig, type WhisperConfig } from './config.js';
import { whisperExport } from './export.js';
import { manifest } from './manifest.js';
import { Whisper } from './model.js';

const tokenizerFiles = ['config.json', 'tokenizer.json', 'preprocessor_config.json'];

/** @param options `model`: an id, a short name, or the absolute path of a folder */
export async function loadForExport(
  options: ModelOptions,
  transfer: TransferOptions = {},
): Promise<ExportSubject> {
  const folder = await resolveModel(options.model, {
    models: manifest.models,
    checkConfig: parseConfig,
    ...transfer,
  });
  checkModelFolder(folder);
  if (options.device) mx.setDevice(options.device);
  if (options.threads !== undefined) mx.setThreads(options.threads);
  const dtype = options.dtype ?? 'float32';
  const model = await loadWhisper(folder, dtype);
  const present = tokenizerFiles.filter((name) => existsSync(join(folder, name)));
  const subject = subjectOf(model, {
    model: modelOrigin(manifest.models, options.model),
    dtype,
    files: Object.fromEntries(present.map((name) => [name, join(folder, name)])),
  });
  try {
    throwIfAborted(transfer.signal);
  } catch (error) {
    model.dispose();
    throw error;
  }
  return subject;
}

// As many layers as whisper-base, so that the budgets of runner.json count its instructions, and as wide as
// the largest group of quantised weights.
const tinyConfig = {
  vocab_size: 60,
  num_mel_bins: 80,
  d_model: 128,
  encoder_layers: 6,
  encoder_attention_heads: 2,
  encoder_ffn_dim: 128,
  decoder_layers: 6,
  decoder_attention_heads: 2,
  decoder_ffn_dim: 128,
  max_source_positions: 20,
  max_target_positions: 24,
};

export function tinyForExport({
  dtype = 'float32',
}: Pick<ModelOptions, 'dtype'> = {}): ExportSubject {
  const model = new Whisper(parseConfig(tinyConfig));
  model.load(randomWeights(model), { dtype });
  return { ...subjectOf(model, { model: { id: 'tiny' }, dtype }), budgets: manifest.exportBudgets };
}

function subjectOf(
  model: Whisper,
  about: Pick<ExportDescription, 'model' | 'dtype' | 'files'>,
): ExportSubject {
  const { methods } = manifest.exportBudgets ?? {};
  return {
    description: { ...about, ...whisperExport(model) },
    budgets: hasBudgetedLayers(model.config) ? { methods } : undefined,
    load: (parameters) => model.replace(parameters),
    dispose: () => model.dispose(),
  };
}

function hasBudgetedLayers({ encoder_layers, decoder_layers }: WhisperConfig): boolean {
  return (
    encoder_layers === tinyConfig.encoder_layers && decoder_layers === tinyConfig.decoder_layers
  );
}
