/** All passes, in order. */
import { foldCasts } from './casts.js';
import { shareCommonSubexpressions } from './common-subexpressions.js';
import { foldConstants } from './constant-folding.js';
import { removeDeadCode } from './dead-code.js';
import { fusions } from './fusions.js';
import { hoistViews } from './hoist-views.js';
import { mergeConstants } from './merge-constants.js';
import { mergeLinears } from './merge-linears.js';
import type { Pass } from './pass.js';
import { fuseRope } from './rope.js';
import { foldViews } from './views.js';

/**
 * What `exportModel` runs. Fusions come before constants and views are folded, which would turn the
 * transpositions that they look for into other things.
 */
export const allPasses: readonly Pass[] = [
  removeDeadCode,
  foldCasts,
  mergeConstants,
  shareCommonSubexpressions,
  // A fused op leaves behind what it took the place of, which would count as a use.
  ...fusions.flatMap((fusion) => [fusion, removeDeadCode]),
  foldConstants,
  mergeConstants,
  // Frequencies are mostly computed, and constants only now.
  fuseRope,
  foldViews,
  // Views of views leave the first ones behind.
  removeDeadCode,
  mergeLinears,
  hoistViews,
  mergeConstants,
  removeDeadCode,
];
