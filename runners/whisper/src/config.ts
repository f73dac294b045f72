/** Whisper's configuration: config.json as Hugging Face writes it, or read off CTranslate2's tensors. */
import { CheckpointError, type MxArray } from '@mlx-runners/mlx-core';
import { fitted } from '@mlx-runners/nn';
import { z } from 'zod';

// Far above any Whisper's: what is larger is damage, and must not be built before it is noticed.
const size = z
  .int()
  .positive()
  .max(2 ** 24);
const layers = z.int().positive().max(1000);

/** Sizes of the network; fields named as in config.json. */
export const whisperConfigSchema = z.object({
  vocab_size: size,
  num_mel_bins: size,
  d_model: size,
  encoder_layers: layers,
  encoder_attention_heads: size,
  encoder_ffn_dim: size,
  decoder_layers: layers,
  decoder_attention_heads: size,
  decoder_ffn_dim: size,
  max_source_positions: size.default(1500),
  max_target_positions: size.default(448),
  activation_function: z.literal('gelu').default('gelu'),
  scale_embedding: z.literal(false).default(false),
});

export type WhisperConfig = z.infer<typeof whisperConfigSchema>;

/** Checks a config.json. @throws CheckpointError naming the fields that are missing or wrong */
export function parseConfig(json: unknown, source = 'config.json'): WhisperConfig {
  const config = fitted(json, whisperConfigSchema, source, 'the configuration of a Whisper');
  const {
    d_model: width,
    encoder_attention_heads: encoder,
    decoder_attention_heads: decoder,
  } = config;
  if (width % encoder !== 0 || width % decoder !== 0) {
    throw new CheckpointError(
      `${source}: d_model ${width} can't be cut into ${encoder} and ${decoder} heads.`,
    );
  }
  return config;
}

/**
 * CTranslate2's config.json has no sizes: they are read off the tensors, by their Hugging Face
 * names (see checkpoint.ts).
 */
export function configFromTensors(
  tensors: ReadonlyMap<string, MxArray>,
  heads: { encoder: number; decoder: number },
  source = 'The CTranslate2 model',
): WhisperConfig {
  const size = (name: string, axis: number): number | undefined => tensors.get(name)?.shape[axis];
  const layers = (part: string): number => {
    const found = [...tensors.keys()].map(
      (name) => new RegExp(`^${part}\\.layers\\.(\\d+)\\.`).exec(name)?.[1],
    );
    return Math.max(-1, ...found.filter((layer) => layer !== undefined).map(Number)) + 1;
  };
  return parseConfig(
    {
      vocab_size: size('decoder.embed_tokens.weight', 0),
      num_mel_bins: size('encoder.conv1.weight', 1),
      d_model: size('decoder.embed_tokens.weight', 1),
      encoder_layers: layers('encoder'),
      encoder_attention_heads: heads.encoder,
      encoder_ffn_dim: size('encoder.layers.0.fc1.weight', 0),
      decoder_layers: layers('decoder'),
      decoder_attention_heads: heads.decoder,
      decoder_ffn_dim: size('decoder.layers.0.fc1.weight', 0),
      max_source_positions: size('encoder.embed_positions.weight', 0),
      max_target_positions: size('decoder.embed_positions.weight', 0),
    },
    source,
  );
}
