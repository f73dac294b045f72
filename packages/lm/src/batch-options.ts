import { UsageError } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { z } from 'zod';
import { MAX_SEQUENCES } from './step-model.js';

export interface BatchOptions {
  /** The most texts that are computed at once, up to 63; further ones wait. Default 32. */
  maxSequences?: number;
  /** The most tokens of a prompt that are read before it is another one's turn. Default 256. */
  prefillChunk?: number;
  /** The most texts at once, those that wait included; one more is refused with a BusyError. Any number unless given. */
  maxRequests?: number;
  /** Of how many texts that have ended the cache keeps the tokens while it has room, for prompts that begin as they do. Default 8. */
  keptSequences?: number;
}

const integerFrom = (least: number) =>
  z.int(`must be an integer of ${least} or more`).min(least, `must be ${least} or more`);

const schema = z.strictObject({
  maxSequences: integerFrom(1).max(MAX_SEQUENCES, `must be ${MAX_SEQUENCES} or less`).default(32),
  prefillChunk: integerFrom(1).default(256),
  maxRequests: integerFrom(1).optional(),
  keptSequences: integerFrom(0).default(8),
});

export type CheckedBatchOptions = z.infer<typeof schema>;

/** @throws UsageError for an option that there is not, or that makes no sense */
export function checkedBatchOptions(
  options: BatchOptions,
  maxBatchSize: number,
): CheckedBatchOptions {
  const checked = checkOptions('BatchEngine', schema, options);
  const { maxSequences, prefillChunk } = checked;
  const most = Math.floor((maxBatchSize - maxSequences) / 2);
  if (prefillChunk <= most) return checked;
  throw new UsageError(
    `prefillChunk must be ${most} or less: the model computes ${maxBatchSize} tokens at once, and two chunks and a token of each of ${maxSequences} sequences must fit.`,
  );
}
