import type { MxArray } from '@mlx-runners/mlx-core';
import { array, type OpCase } from './case.js';

/** Of two tokens the second sees both, of equal scores, or with a window only itself. */
function tokens(): MxArray[] {
  const zeros = array([[[[0], [0]]]]);
  return [zeros, zeros, array([[[[2], [6]]]])];
}

export const caches: Record<string, OpCase[]> = {
  updateAndAttend: [
    { args: () => [...tokens(), 0, 0, 1], gives: [[[[2], [4]]]] },
    { args: () => [...tokens(), 7, 3, 1, 1], gives: [[[[2], [6]]]] },
  ],
};
