/** Whisper's weights as mlx-whisper reads them: OpenAI's names and sizes, in MLX's layout. */
import { join } from 'node:path';
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import type { WhisperConfig } from './config.js';
import type { Whisper } from './model.js';

// In this order: a later pattern sees what the earlier ones left.
const renames: readonly (readonly [RegExp, string])[] = [
  [/^(encoder|decoder)\.layers\./, '$1.blocks.'],
  [/\.self_attn_layer_norm\./, '.attn_ln.'],
  [/\.encoder_attn_layer_norm\./, '.cross_attn_ln.'],
  [/\.final_layer_norm\./, '.mlp_ln.'],
  [/\.self_attn\./, '.attn.'],
  [/\.encoder_attn\./, '.cross_attn.'],
  [/\.q_proj\./, '.query.'],
  [/\.k_proj\./, '.key.'],
  [/\.v_proj\./, '.value.'],
  [/\.out_proj\./, '.out.'],
  [/\.fc([12])\./, '.mlp$1.'],
  [/^encoder\.layer_norm\./, 'encoder.ln_post.'],
  [/^decoder\.layer_norm\./, 'decoder.ln.'],
  [/^decoder\.embed_tokens\./, 'decoder.token_embedding.'],
  [/^decoder\.embed_positions\.weight$/, 'decoder.positional_embedding'],
];

/** OpenAI's `ModelDimensions`. */
function dimensions(config: WhisperConfig): Record<string, number> {
  const { d_model, encoder_ffn_dim, decoder_ffn_dim } = config;
  if (encoder_ffn_dim !== 4 * d_model || decoder_ffn_dim !== 4 * d_model) {
    throw new CheckpointError(
      `mlx-whisper has only feed-forward layers of 4 times the width ${d_model}, not of ${encoder_ffn_dim} and ${decoder_ffn_dim}.`,
    );
  }
  return {
    n_mels: config.num_mel_bins,
    n_audio_ctx: config.max_source_positions,
    n_audio_state: d_model,
    n_audio_head: config.encoder_attention_heads,
    n_audio_layer: config.encoder_layers,
    n_vocab: config.vocab_size,
    n_text_ctx: config.max_target_positions,
    n_text_state: d_model,
    n_text_head: config.decoder_attention_heads,
    n_text_layer: config.decoder_layers,
  };
}

/**
 * Writes weights.safetensors and config.json for mlx-whisper's `load_model`, in the model's dtype.
 *
 * @throws CheckpointError for a network that mlx-whisper has no parameters for
 */
export async function writeMlxWhisperModel(model: Whisper, folder: string): Promise<void> {
  const tensors = new Map<string, MxArray>();
  for (const [name, tensor] of model.parameters()) {
    // mlx-whisper computes the encoder's sinusoids.
    if (name === 'encoder.embed_positions.weight') continue;
    const renamed = renames.reduce((text, [pattern, by]) => text.replace(pattern, by), name);
    tensors.set(renamed, tensor);
  }
  mx.saveSafetensors(join(folder, 'weights.safetensors'), tensors);
  const config = `${JSON.stringify(dimensions(model.config), null, 2)}\n`;
  await writeWholeFile(join(folder, 'config.json'), config);
}
