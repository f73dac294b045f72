/** Generation from a method that gives logits, in one native call. */
import { SequenceCache, UsageError } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { NativeSampler, type NativeGeneration } from '@mlx-runners/mlx-core/program';
import { z } from 'zod';
import type { LoweredMethod } from './lowered-method.js';
import { abortSignal } from './option-schemas.js';

export interface GenerateOptions {
  /** Token ids to feed first, at least one. */
  ids: Int32Array;
  /** How many tokens have been fed before. */
  past: number;
  /** Draws the tokens: a `Sampler` of @mlx-runners/lm. */
  sampler: NativeSampler;
  /** Tokens that end the burst. */
  stopIds?: ReadonlySet<number> | readonly number[];
  /** The most tokens to sample, at least one. */
  maxTokens: number;
  /** After so many seconds no further token is begun. Default: Infinity. */
  maxSeconds?: number;
  /** Where the method's `updateAndAttend` has keys and values: one with `past` tokens. */
  cache?: SequenceCache;
  /** Ends the burst between two chunks of instructions; what has been sampled is returned. */
  signal?: AbortSignal;
}

function isTokenIds(value: unknown): boolean {
  const isList = value instanceof Set || Array.isArray(value);
  return isList && [...(value as Iterable<unknown>)].every((id) => (id as number) >> 0 === id);
}

const atLeast = (least: number, what: string) =>
  z.custom<number>((value) => typeof value === 'number' && value >= least, what);

const generateOptions = z.strictObject({
  ids: z.custom<Int32Array>(
    (value) => value instanceof Int32Array && value.length > 0,
    'must be an Int32Array of at least one id',
  ),
  past: z.number('must be a number').int('must be a whole number').min(0, 'must be 0 or more'),
  sampler: z.instanceof(NativeSampler, { error: 'must be a Sampler' }),
  stopIds: z
    .custom<ReadonlySet<number> | readonly number[]>(isTokenIds, 'must be token ids')
    .default([]),
  maxTokens: atLeast(1, 'must be a number of 1 or more'),
  maxSeconds: atLeast(0, 'must be a number of 0 or more').default(Infinity),
  cache: z
    .custom<SequenceCache>((value) => value instanceof SequenceCache, 'must be a SequenceCache')
    .optional(),
  signal: abortSignal(),
});

/**
 * What the addon needs to generate with a method.
 *
 * @throws UsageError for a method that has other inputs, dimensions or outputs than generation, and for options
 */
export function generationOf(method: LoweredMethod, options: GenerateOptions): NativeGeneration {
  const { inputs, outputs, dimensions } = method;
  const given = dimensions.filter(({ inShapes }) => inShapes !== 'all').map(({ name }) => name);
  const takesRows = inputs.length === 2 && inputs.includes('rows');
  const generates =
    inputs.includes('ids') &&
    (inputs.length === 1 || takesRows) &&
    given.length === 1 &&
    given[0] === 'past' &&
    outputs.includes('logits');
  if (!generates) {
    throw new UsageError(
      `${method.name} can't generate: that takes the input ids, maybe rows, the dimension past, no others, and the output logits.`,
    );
  }
  return {
    ...checkOptions('generate()', generateOptions, options),
    method: method.number,
    rowsInput: takesRows ? inputs.indexOf('rows') : undefined,
    pastDimension: dimensions.findIndex(({ name }) => name === 'past'),
    logitsOutput: outputs.indexOf('logits'),
    dimensions: new Float64Array(dimensions.length).fill(NaN),
  };
}
