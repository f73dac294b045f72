/** All passes, in order. */
import { fuseAddRmsNorm } from './add-rms-norm.js';
import { fuseCachedAttention } from './cached-attention.js';
import { foldCasts } from './casts.js';
import { shareCommonSubexpressions } from './common-subexpressions.js';
import { foldConstants, foldSmallConstants } from './constant-folding.js';
import { removeDeadCode } from './dead-code.js';
import { fusions } from './fusions.js';
import { hoistViews } from './hoist-views.js';
import { mergeConstants } from './merge-constants.js';
import { mergeLinears } from './merge-linears.js';
import { mergePackedLinears } from './merge-packed-linears.js';
import type { Pass } from './pass.js';
import { fuseRope } from './rope.js';
import { foldViews } from './views.js';

/**
 * Fusions come before constants and views are folded, which would turn the transpositions that they look for into
 * other things.
 */
const passesWith = (fold: Pass, ...afterViews: readonly Pass[]): readonly Pass[] => [
  removeDeadCode,
  foldCasts,
  mergeConstants,
  shareCommonSubexpressions,
  ...fusions,
  fuseAddRmsNorm,
  fold,
  mergeConstants,
  // Frequencies are mostly computed, and constants only now.
  fuseRope,
  ...fuseCachedAttention,
  foldViews,
  mergePackedLinears,
  // Views of views leave the first ones behind.
  removeDeadCode,
  ...afterViews,
];

/** What `exportModel` runs. */
export const allPasses: readonly Pass[] = passesWith(
  foldConstants,
  mergeLinears,
  hoistViews,
  mergeConstants,
  removeDeadCode,
);

/** What `compileModel` runs: none of them makes other weights, which would be held twice. */
export const passesInMemory: readonly Pass[] = passesWith(foldSmallConstants, mergeConstants);
