/** The options of a language model's `load`. */
import type { DownloadProgress } from '@mlx-runners/hub';
import { kvStorages, type KvStorage } from '@mlx-runners/mlx-core';
import { z } from 'zod';
import { loadOptionsSchema, type DEVICES, type DTYPES } from './load-options.js';
import { oneOf, wholeNumber } from './option-schemas.js';

export const precisions = ['exact', 'fast'] as const;

/** The options of `load`. */
export interface LanguageModelLoadOptions {
  /** Where to compute: the GPU where there is one, unless given. */
  device?: (typeof DEVICES)[number];
  /** Of activations and of weights that are not packed: float32 on the CPU, bfloat16 elsewhere, unless given. */
  dtype?: (typeof DTYPES)[number];
  /** 'fast' rounds activations to 8 bits before packed matrices are multiplied; 'exact', the default, doesn't. */
  precision?: (typeof precisions)[number];
  /** The most tokens of a sequence: what the model was made for, unless given. */
  maxContextLength?: number;
  /** How keys and values are kept. */
  kvCache?: {
    /** Of their numbers; q8 and q4 are 8 and 4 bits with a scale and a bias for 32 of them. Default float32. */
    storage?: KvStorage;
    /** The tokens that there is room for at first, which doubles as it fills. Default 512. */
    initialCapacity?: number;
  };
  /** Stops loading. */
  signal?: AbortSignal;
  /** Called while model files are fetched. */
  onProgress?: (progress: DownloadProgress) => void;
}

export const languageModelLoadSchema = loadOptionsSchema.omit({ onProfile: true }).extend({
  precision: oneOf(precisions).optional(),
  maxContextLength: wholeNumber({ min: 1 }).optional(),
  kvCache: z
    .strictObject({
      storage: oneOf(kvStorages).optional(),
      initialCapacity: wholeNumber().optional(),
    })
    .optional(),
}) satisfies z.ZodType<LanguageModelLoadOptions, LanguageModelLoadOptions>;
