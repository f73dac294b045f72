/**
 * What the options of commands and library calls may be. One schema serves both: `--best-of` and
 * `bestOf` have the same limits and the same words about them.
 */
import { z } from 'zod';

export interface Limits {
  min?: number;
  max?: number;
}

export function wholeNumber({ min = 0, max = Number.MAX_SAFE_INTEGER }: Limits = {}) {
  const limits = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return z.custom<number>(
    (value) => Number.isSafeInteger(value) && isWithin(value, min, max),
    `must be a whole number ${limits}`,
  );
}

export function finiteNumber({ min = -Infinity, max = Infinity }: Limits = {}) {
  const limits = [
    min === -Infinity ? '' : ` of at least ${min}`,
    max === Infinity ? '' : `${min === -Infinity ? ' of' : ' and'} at most ${max}`,
  ].join('');
  return z.custom<number>(
    (value) => Number.isFinite(value) && isWithin(value, min, max),
    `must be a number${limits}`,
  );
}

function isWithin(value: unknown, min: number, max: number): boolean {
  return typeof value === 'number' && value >= min && value <= max;
}

export function oneOf<const Choice extends string>(choices: readonly Choice[]) {
  return z.enum(choices, `must be one of ${choices.join(', ')}`);
}

export function nonEmpty() {
  return z.custom<string>(
    (value) => typeof value === 'string' && value.trim() !== '',
    'must be a text that is not empty',
  );
}

/** Seeds of everything drawn at random. */
export function seed() {
  return wholeNumber({ max: 2 ** 32 - 1 });
}

export function abortSignal() {
  return z.custom<AbortSignal>((value) => value instanceof AbortSignal, 'must be an AbortSignal');
}

export function callback<Argument>() {
  return z.custom<(argument: Argument) => void>(
    (value) => typeof value === 'function',
    'must be a function',
  );
}
