/** Checkpoints have weights of any floating-point dtype; a network computes in one. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { Decoder } from './decoder.js';

/** What suits the device: on the CPU MLX's code for 16-bit floats is many times slower. */
export function usualDtype(): Dtype {
  return mx.device() === 'cpu' ? 'float32' : 'bfloat16';
}

/**
 * Has a decoder compute in a dtype. Its weights are converted, but for 16-bit matrices on the CPU, where they are
 * multiplied with float32 as they lie in the file.
 */
export function computeIn(decoder: Decoder, dtype: Dtype): void {
  const keepsMatrices = dtype === 'float32' && mx.device() === 'cpu';
  for (const { owner, key } of decoder.parameterSlots()) {
    const weight = owner[key] as MxArray;
    const isFloating = /^b?float/.test(weight.dtype);
    if (!isFloating || weight.dtype === dtype || (keepsMatrices && weight.ndim === 2)) continue;
    owner[key] = mx.keep(weight.astype(dtype));
    weight.dispose();
  }
  decoder.dtype = dtype;
}
