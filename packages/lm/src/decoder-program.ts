/** A decoder as a program: what is exported of a language model, and what runs when one is loaded. */
import { UsageError, type KvLayer } from '@mlx-runners/mlx-core';
import type { ExportDescription, Method } from '@mlx-runners/program';
import { z } from 'zod';
import type { Decoder } from './decoder.js';
import { InGraphCache, inGraphRows, inGraphStates } from './in-graph-cache.js';
import { OffGraphCache } from './off-graph-cache.js';
import { MAX_SEQUENCES } from './step-model.js';

export const LOGITS_TO_KEEP = ['full', 'last', 'selected'] as const;
export const CACHE_PLACES = ['off-graph', 'in-graph'] as const;

export interface DecoderProgramOptions {
  /** The most tokens of a sequence: those the model was made for, in-graph at most 4,096, unless given. */
  maxContextLength?: number;
  /** The most tokens of one call: 512 unless given. */
  prefillChunk?: number;
  /** Whose logits a call gives: of all tokens, of the last one, or of those that a further input names (default). */
  logitsToKeep?: (typeof LOGITS_TO_KEEP)[number];
  /** Where keys and values are: in a cache that is given to the session (default), or in its states. */
  cache?: (typeof CACHE_PLACES)[number];
  /** In-graph: whether attention is our own op or MLX's, with a mask. Default true. */
  useCustomSdpa?: boolean;
  /** In-graph: whether windows are rings, written by our own op, or as long as the context. Default true. */
  useCustomKvCache?: boolean;
}

const sizes = z.array(z.int().positive()).min(1);

/** What a decoder's export publishes: what has to be known to run it. */
export const decoderConstants = z.object({
  cache: z.enum(CACHE_PLACES),
  logitsToKeep: z.enum(LOGITS_TO_KEEP),
  contextLength: z.int().positive(),
  prefillChunk: z.int().positive(),
  vocabularySize: z.int().positive(),
  /** Of each layer's cache. */
  kvHeads: sizes,
  headSizes: sizes,
  /** 0 where a layer sees all keys. */
  windows: z.array(z.int().min(0)).min(1),
  /** The most tokens of a step of many sequences, where there is one: off-graph, with selected logits. */
  maxBatchSize: z.int().positive().optional(),
  /** In-graph: how many tokens each layer's states hold. */
  cacheRows: sizes.optional(),
});

export type DecoderConstants = z.infer<typeof decoderConstants>;

/** The layers of a cache that a program's calls need. */
export function cacheLayers({ kvHeads, headSizes, windows }: DecoderConstants): KvLayer[] {
  return kvHeads.map((heads, layer) => ({
    kvHeads: heads,
    headSize: headSizes[layer],
    window: windows[layer] || undefined,
  }));
}

const usualChunk = 512;
const usualInGraphContext = 4096;
/** Two chunks of prompts, and a token of each sequence that a cell cache can tell apart. */
const maxBatchSize = 2 * 256 + MAX_SEQUENCES;

/** @throws UsageError for lengths beyond what the model was made for */
export function decoderProgram(
  decoder: Decoder,
  options: DecoderProgramOptions = {},
): Pick<ExportDescription, 'methods' | 'parameters'> & { constants: DecoderConstants } {
  const { cache = 'off-graph', logitsToKeep = 'selected' } = options;
  const contextLength = contextLengthOf(decoder, options);
  const { prefillChunk = usualChunk } = options;
  const plan = { ...options, cache, logitsToKeep, contextLength };
  const chunk = Math.min(prefillChunk, contextLength);
  const isBatched = cache === 'off-graph' && logitsToKeep === 'selected';
  const { layouts, vocabularySize } = decoder;
  return {
    methods: {
      forward: [
        forward(decoder, plan, 1, chunk),
        ...(chunk > 1 ? [forward(decoder, plan, chunk, chunk)] : []),
      ],
      ...(isBatched && { step: step(decoder, contextLength) }),
    },
    parameters: decoder.parameters(),
    constants: {
      cache,
      logitsToKeep,
      contextLength,
      prefillChunk: chunk,
      vocabularySize,
      kvHeads: layouts.map(({ kvHeads }) => kvHeads),
      headSizes: layouts.map(({ headSize }) => headSize),
      windows: layouts.map(({ window = 0 }) => window),
      ...(isBatched && { maxBatchSize }),
      ...(cache === 'in-graph' && {
        cacheRows: layouts.map((layout) => inGraphRows(layout, { ...plan, chunk })),
      }),
    },
  };
}

function contextLengthOf(
  { contextLength: most }: Decoder,
  { cache, maxContextLength }: DecoderProgramOptions,
): number {
  if (maxContextLength === undefined) {
    return cache === 'in-graph' ? Math.min(most, usualInGraphContext) : most;
  }
  if (maxContextLength <= most) return maxContextLength;
  throw new UsageError(
    `The model was made for ${most} tokens: a context of ${maxContextLength} is too long.`,
  );
}

interface Plan extends DecoderProgramOptions {
  cache: NonNullable<DecoderProgramOptions['cache']>;
  logitsToKeep: NonNullable<DecoderProgramOptions['logitsToKeep']>;
  contextLength: number;
}

/**
 * Token ids [1, T] after `past` others → logits [1, P, vocabulary] of P tokens: all, the last one, or those of
 * `rows` int32 [P].
 */
function forward(decoder: Decoder, plan: Plan, longest: number, chunk: number): Method {
  const { cache: place, logitsToKeep, contextLength } = plan;
  const { layouts, vocabularySize, dtype } = decoder;
  const selects = logitsToKeep === 'selected';
  return {
    dimensions: {
      T: { min: 1, max: longest },
      past: { min: 0, max: contextLength - 1 },
      ...(selects ? { P: { min: 1, max: longest } } : {}),
    },
    limits: [{ size: ['+', 'past', 'T'], max: contextLength }],
    inputs: {
      ids: { dtype: 'int32', shape: [1, 'T'], below: vocabularySize },
      ...(selects ? { rows: { dtype: 'int32', shape: ['P'], below: 'T' } } : {}),
    },
    states: place === 'in-graph' ? inGraphStates(layouts, { ...plan, chunk, dtype }) : undefined,
    run: ({ ids, rows }, { past }, states) => {
      const cache =
        place === 'in-graph'
          ? new InGraphCache(layouts, states, past, plan)
          : new OffGraphCache(layouts, past);
      const kept = longest === 1 || logitsToKeep === 'full' ? 'all' : selects ? rows : 'last';
      const { logits } = decoder.forward({ ids, cache, logitsToKeep: kept });
      return { logits };
    },
  };
}

/**
 * Token ids [N, 1] of any sequences of a cell cache, at `positions` int32 [N] in them → logits [P, vocabulary] of
 * the tokens that `rows` int32 [P] names.
 */
function step(decoder: Decoder, contextLength: number): Method {
  const { layouts, vocabularySize } = decoder;
  return {
    dimensions: { N: { min: 1, max: maxBatchSize }, P: { min: 1, max: maxBatchSize } },
    inputs: {
      ids: { dtype: 'int32', shape: ['N', 1], below: vocabularySize },
      positions: { dtype: 'int32', shape: ['N'], below: contextLength },
      rows: { dtype: 'int32', shape: ['P'], below: 'N' },
    },
    run: ({ ids, positions, rows }) => {
      const cache = new OffGraphCache(layouts, positions);
      const { logits } = decoder.forward({ ids, cache, logitsToKeep: rows });
      return { logits: logits.squeeze(0) };
    },
  };
}
