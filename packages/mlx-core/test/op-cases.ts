/** At least one call of every op with what it gives: op name → cases, by table of native/ops. */
import { elementwise } from './op-cases/elementwise.js';
import { shapes } from './op-cases/shape.js';
import { reductions } from './op-cases/reductions.js';
import { linear } from './op-cases/linear.js';
import { fast } from './op-cases/fast.js';
import { quantized } from './op-cases/quantized.js';
import { random } from './op-cases/random.js';
import { blocks } from './op-cases/blocks.js';
import { kvCache } from './op-cases/kv-cache.js';
import { caches } from './op-cases/caches.js';
import type { OpCase } from './op-cases/case.js';

export const opCases: Readonly<Record<string, OpCase[]>> = {
  ...elementwise,
  ...shapes,
  ...reductions,
  ...linear,
  ...fast,
  ...quantized,
  ...random,
  ...blocks,
  ...kvCache,
  ...caches,
};
