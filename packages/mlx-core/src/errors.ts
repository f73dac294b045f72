/**
 * The errors every package throws. One class per kind of mistake, so that callers can tell them
 * apart with `instanceof` or by `code`; messages say what was wrong and what would be right.
 *
 * This file loads nothing native, so that libraries and command lines can import it for free.
 */

import { getSystemErrorMap } from 'node:util';

export { nameHint, nearestName } from './nearest-name.js';

export type ErrorCode =
  | 'SHAPE'
  | 'DTYPE'
  | 'DISPOSED'
  | 'CHECKPOINT'
  | 'PROGRAM'
  | 'AUDIO'
  | 'HUB'
  | 'FILE'
  | 'USAGE'
  | 'NATIVE'
  | 'MEMORY'
  | 'BUSY'
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

/** A file that can't be written. */
export class FileError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('FILE', message, options);
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

/**
 * Arrays would take more memory than the process may use for them (`mx.setMemoryLimit`). Nothing is
 * lost: once arrays are freed, the same call works.
 */
export class MemoryError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('MEMORY', message, options);
  }
}

/** As much is under way as may be at once; the same call works later. */
export class BusyError extends MlxRunnersError {
  constructor(message: string, options?: ErrorOptions) {
    super('BUSY', message, options);
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

const systemReasons: Readonly<Record<string, string | undefined>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'it would be larger than the system allows',
};

/** Why the system refused to read or write a file, without its path: `there is no such file`. */
export function systemReason(error: unknown): string {
  const { code, errno, message } = error as NodeJS.ErrnoException;
  const known = code === undefined ? undefined : systemReasons[code];
  const [, description] = getSystemErrorMap().get(errno ?? 0) ?? [];
  return known ?? (description === undefined ? message : `${description} (${code})`);
}

// Names and values in files can be of any length, and hold what a terminal would obey.
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** A text out of a file, fit for a message: one line of at most `longest` characters, escaped. */
export function printable(text: string, longest = 150): string {
  const escaped = text.slice(0, longest + 1).replace(unprintable, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return escaped.length > longest ? `${escaped.slice(0, longest)}…` : escaped;
}

/** A value out of a file, fit for a message: short, texts in quotes. */
export function quoted(value: unknown): string {
  if (typeof value === 'string') return `"${printable(value, 60)}"`;
  if (Array.isArray(value)) return `a list of ${value.length}`;
  switch (typeof value) {
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value);
    case 'undefined':
      return 'nothing';
    default:
      return value === null ? 'null' : `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`;
  }
}
