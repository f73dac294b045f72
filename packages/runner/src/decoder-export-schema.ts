/** What runners of language models let users choose of an export: for libraries and flags alike. */
import { z } from 'zod';
import { oneOf, wholeNumber } from './option-schemas.js';

export const logitsToKeep = ['full', 'last', 'selected'] as const;
export const caches = ['off-graph', 'in-graph'] as const;

export const decoderExportSchema = z.strictObject({
  /** Tokens that a sequence may have; the model's own limit unless given. */
  maxContextLen: wholeNumber({ min: 1 }).optional(),
  /** Tokens of the longest single call. */
  prefillChunk: wholeNumber({ min: 1 }).optional(),
  /** Of which tokens a call gives logits: all, the last, or those that an input names. */
  logitsToKeep: oneOf(logitsToKeep).optional(),
  /** Whether keys and values are a cache that calls are given, or states of the program. */
  cache: oneOf(caches).optional(),
  /** Attention over a cache in the graph as one op, instead of slices and a mask. */
  useCustomSdpa: z.boolean('must be true or false').optional(),
  /** Updates of a cache in the graph as one op, instead of sliceUpdate. */
  useCustomKvCache: z.boolean('must be true or false').optional(),
});

export type DecoderExportOptions = z.output<typeof decoderExportSchema>;
