/**
 * The errors every package throws. One class per kind of mistake, so that callers can tell them
 * apart with `instanceof` or by `code`; messages say what was wrong and what would be right.
 *
 * This file loads nothing native, so that libraries and command lines can import it for free.
 */

export type ErrorCode =
  | 'SHAPE'
  | 'DTYPE'
  | 'DISPOSED'
  | 'CHECKPOINT'
  | 'PROGRAM'
  | 'AUDIO'
  | 'HUB'
  | 'USAGE'
  | 'NATIVE'
  | 'ABORTED';

export class MlxRunnersError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** Shapes, axes or sizes that don't fit together. */
export class ShapeError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('SHAPE', message, options);
  }
}

/** A dtype, or a JavaScript value, of the wrong type. */
export class DtypeError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('DTYPE', message, options);
  }
}

/** Use of an array or model after it was disposed. */
export class DisposedError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('DISPOSED', message, options);
  }
}

/** A model's files: missing or surplus tensors, wrong shapes, an unreadable or unsupported format. */
export class CheckpointError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('CHECKPOINT', message, options);
  }
}

/** An exported program that can't be made, read or run. */
export class ProgramError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('PROGRAM', message, options);
  }
}

/** Audio that can't be read or has no usable content. */
export class AudioError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('AUDIO', message, options);
  }
}

/** Model files that can't be found, fetched or verified. */
export class HubError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('HUB', message, options);
  }
}

/** Options or arguments that make no sense; command lines exit with 2. */
export class UsageError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('USAGE', message, options);
  }
}

/** The native library can't be loaded, or failed for a reason that no other class covers. */
export class NativeError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('NATIVE', message, options);
  }
}

/** The caller's AbortSignal fired. */
export class AbortedError extends MlxRunnersError {
  constructor(message = 'The operation was aborted.', options?: ErrorOptions) {
    super('ABORTED', message, options);
  }
}

/** @throws AbortedError when the signal has fired; its reason is the cause */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw new AbortedError(undefined, { cause: signal.reason });
}
