/** Models for `export`: one that the user named, or a small one of random weights. */
import { modelOrigin, type TransferOptions } from '@mlx-runners/hub';
import {
  decoderSubject,
  randomDecoderSubject,
  type DecoderSubjectOptions,
} from '@mlx-runners/lm/command-line';
import type { ExportSubject } from '@mlx-runners/runner';
import { loadTokenizer } from '@mlx-runners/text';
import { manifest } from './manifest.js';
import { findStories, folderOf } from './pipeline.js';

/** Stories end with the token of the end, or that of the next one's beginning. */
function constantsOf({ bos, eos }: { bos?: number; eos?: number }) {
  return { bosId: bos ?? null, eosIds: [eos, bos].filter((id) => id !== undefined) };
}

/** @param options `model`: an id, a short name, or the absolute path of a folder or file */
export async function loadForExport(
  { model, ...options }: DecoderSubjectOptions & { model: string },
  transfer: TransferOptions = {},
): Promise<ExportSubject> {
  const { tokenizer } = options;
  const path = await findStories(model, { ...transfer, tokenizer });
  const { specialTokens } = await loadTokenizer(tokenizer ?? folderOf(path));
  const { id } = modelOrigin(manifest.models, model);
  const about = { model: { id }, constants: constantsOf(specialTokens) };
  return await decoderSubject(path, about, options, transfer.signal);
}

/** Of the make of llama2.c's models, with two layers. */
const tinyConfig = {
  model_type: 'llama',
  vocab_size: 320,
  hidden_size: 64,
  intermediate_size: 192,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  rms_norm_eps: 1e-5,
  rope_traditional: true,
  max_position_embeddings: 256,
  tie_word_embeddings: true,
};

export function tinyForExport(options: DecoderSubjectOptions = {}): ExportSubject {
  const about = { model: { id: 'tiny' }, constants: constantsOf({ bos: 1, eos: 2 }) };
  return randomDecoderSubject(tinyConfig, about, options);
}
