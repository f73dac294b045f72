import type { DownloadProgress } from '@mlx-runners/hub';
import type { SessionProfile } from '@mlx-runners/program';
import { z } from 'zod';
import * as schemas from './option-schemas.js';

export interface MethodProfile {
  method: string;
  profile: SessionProfile;
}

export const DEVICES = ['cpu', 'gpu'] as const;
export const DTYPES = ['float32', 'float16', 'bfloat16'] as const;

/** The options of every runner's `load(idOrPath, options)`. */
export const loadOptionsSchema = z.strictObject({
  /** Where to compute: the GPU where there is one, unless given. */
  device: schemas.oneOf(DEVICES).optional(),
  /** Of weights and activations: what suits the device, unless given. */
  dtype: schemas.oneOf(DTYPES).optional(),
  signal: schemas.abortSignal().optional(),
  /** Called while model files are fetched. */
  onProgress: schemas.callback<DownloadProgress>().optional(),
  /**
   * For exports: called after each call of a method, which is then computed instruction by instruction, with how
   * long each op took.
   */
  onProfile: schemas.callback<MethodProfile>().optional(),
});

export type LoadOptions = z.input<typeof loadOptionsSchema>;
