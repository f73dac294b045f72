/** What `mlxfn.json` says of the files beside it, for programs in other languages. */
import type { Manifest } from './format.js';
import type { Sizes } from './sizes.js';

export const mlxfnName = 'mlxfn.json';

type Types = Manifest['methods'][string]['inputs'];

export interface MlxfnMethod {
  file: string;
  /**
   * Arguments, by name. A dimension that no other input's shape has is one of them: an array of that length,
   * whose values don't matter.
   */
  inputs: Types;
  /** Further arguments: zeros in the first call, then what `nextStates` gave. */
  states: Manifest['states'];
  /** The first results, in this order. */
  outputs: Types;
  /** The results after these: states by name. */
  nextStates: string[];
  /** The values of dimensions that there are. */
  sizes: Sizes[];
}

export interface MlxfnManifest extends Pick<
  Manifest,
  'mlx' | 'model' | 'dtype' | 'quantization' | 'constants' | 'files'
> {
  methods: Record<string, MlxfnMethod>;
}
