import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { z } from 'zod';
import * as schemas from './option-schemas.js';

/**
 * Parsers of option values, for commander's `argParser`. Each is made for one flag, which its error
 * names: `--threads must be a whole number of at least 1; got 'many'.`
 */
export type OptionParser<T> = (value: string) => T;

const DECIMAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Values by the schema that the library's option has: as text, a number, or numbers with commas. */
export function valueOf<Schema extends z.ZodType>(
  flag: string,
  schema: Schema,
): OptionParser<z.output<Schema>> {
  return (text) => {
    const asText = schema.safeParse(text);
    if (asText.success) return asText.data;
    const asNumber = schema.safeParse(numberOf(text));
    if (asNumber.success) return asNumber.data;
    const asList = schema.safeParse(text.split(/, */).map(numberOf));
    if (asList.success) return asList.data;
    throw new UsageError(`${flag} ${asText.error.issues[0].message}; got '${text}'.`);
  };
}

function numberOf(text: string): number {
  return DECIMAL.test(text) ? Number(text) : NaN;
}

export function wholeNumber(flag: string, limits?: schemas.Limits): OptionParser<number> {
  return valueOf(flag, schemas.wholeNumber(limits));
}

export function oneOf<const T extends string>(
  flag: string,
  choices: readonly T[],
): OptionParser<T> {
  return valueOf(flag, schemas.oneOf(choices));
}

export function nonEmpty(flag: string): OptionParser<string> {
  return valueOf(flag, schemas.nonEmpty());
}
