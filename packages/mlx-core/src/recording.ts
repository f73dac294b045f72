/**
 * Who is told of every op call while a function is traced (packages/program). Nothing is computed
 * then, so that whatever needs values of the traced arrays is refused.
 */
import type { MxArray } from './array.js';
import { UsageError } from './errors.js';
import type { OpRow } from './native.js';

export interface CallRecorder {
  /** A call that the op table has accepted, with the arrays that it gave. */
  called(row: OpRow, args: readonly unknown[], results: readonly MxArray[]): void;
  /** Before an array is computed. Throws when `use` has to be refused. */
  reading(use: string, array: MxArray): void;
}

let current: CallRecorder | undefined;

/** The recorder of the function that is being traced. @internal */
export function recorder(): CallRecorder | undefined {
  return current;
}

/** Runs a synchronous function and tells `to` of every op that it calls. */
export function recordCalls<T>(to: CallRecorder, fn: () => T): T {
  if (current) throw new UsageError('A function is being traced already: traces do not nest.');
  current = to;
  try {
    return fn();
  } finally {
    current = undefined;
  }
}
