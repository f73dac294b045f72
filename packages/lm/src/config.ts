/** Fields of config.json that several families have. */
import { CheckpointError } from '@mlx-runners/mlx-core';
import { z } from 'zod';

// Far above any model's: what is larger is damage, and must not be built before it is noticed.
export const size = z
  .int()
  .positive()
  .max(2 ** 24);
const count = z.int().positive().max(1000);

export const sizeFields = {
  model_type: z.string(),
  vocab_size: size,
  hidden_size: size,
  num_hidden_layers: count,
  rms_norm_eps: z.number().positive().default(1e-6),
  max_position_embeddings: size,
  tie_word_embeddings: z.boolean().nullish(),
};

interface Embeddings {
  model_type: string;
  tie_word_embeddings?: boolean | null | undefined;
}

/** Whether the table of embeddings is the output matrix, too. */
export function isTied({ model_type, tie_word_embeddings }: Embeddings): boolean {
  return tie_word_embeddings ?? model_type.startsWith('gemma');
}

export const headFields = {
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: size.nullish(),
};

interface Heads extends z.infer<z.ZodObject<typeof headFields>> {
  hidden_size: number;
}

/** The number of heads of keys and values, and the size of a head. */
export function headSizes(
  { hidden_size: width, num_attention_heads: heads, num_key_value_heads, head_dim }: Heads,
  source: string,
): [kvHeads: number, headSize: number] {
  const kvHeads = num_key_value_heads ?? heads;
  const headSize = head_dim ?? width / heads;
  if (heads % kvHeads !== 0 || !Number.isInteger(headSize) || headSize % 2 !== 0) {
    throw new CheckpointError(
      `${source}: ${heads} heads of ${headSize} can't share the keys of ${kvHeads} heads and be rotated.`,
    );
  }
  return [kvHeads, headSize];
}

export const windowFields = {
  sliding_window: size.nullish(),
  use_sliding_window: z.boolean().optional(),
  max_window_layers: z.int().min(0).default(0),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
};

interface Windows extends z.infer<z.ZodObject<typeof windowFields>> {
  model_type: string;
}

/** @throws CheckpointError when a list of the layers' types is not one for each */
export function checkLayerTypes(
  layerTypes: readonly string[] | null | undefined,
  layers: number,
  source: string,
): void {
  if (!layerTypes || layerTypes.length === layers) return;
  throw new CheckpointError(
    `${source} has ${layers} layers, and layer_types of ${layerTypes.length}.`,
  );
}

/** Which layers see only a window of keys, and how many. */
export function windowsOf({
  model_type,
  sliding_window,
  use_sliding_window = model_type === 'mistral',
  max_window_layers,
  layer_types,
}: Windows): (layer: number) => number | undefined {
  return (layer) => {
    const slides = layer_types
      ? layer_types[layer] === 'sliding_attention'
      : use_sliding_window && layer >= max_window_layers;
    return slides ? (sliding_window ?? undefined) : undefined;
  };
}
