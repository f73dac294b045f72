import { UsageError } from '@mlx-runners/mlx-core/errors';

/**
 * Parsers of option values, for commander's `argParser`. Each is made for one flag, which its error
 * names: `--threads must be a whole number of at least 1, such as 4; got 'many'.`
 */
export type OptionParser<T> = (value: string) => T;

export function wholeNumber(
  flag: string,
  { min = 0, max = Number.MAX_SAFE_INTEGER }: { min?: number; max?: number } = {},
): OptionParser<number> {
  const limits = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return (value) => {
    const number = /^[+-]?\d+$/.test(value) ? Number(value) : NaN;
    if (!(number >= min && number <= max)) {
      throw new UsageError(`${flag} must be a whole number ${limits}; got '${value}'.`);
    }
    return number;
  };
}

export function numberFrom(
  flag: string,
  { min = -Infinity, max = Infinity }: { min?: number; max?: number } = {},
): OptionParser<number> {
  const limits = [
    min === -Infinity ? '' : ` of at least ${min}`,
    max === Infinity ? '' : `${min === -Infinity ? ' of' : ' and'} at most ${max}`,
  ].join('');
  return (value) => {
    const number = value.trim() === '' ? NaN : Number(value);
    if (!(Number.isFinite(number) && number >= min && number <= max)) {
      throw new UsageError(`${flag} must be a number${limits}; got '${value}'.`);
    }
    return number;
  };
}

export function oneOf<const T extends string>(
  flag: string,
  choices: readonly T[],
): OptionParser<T> {
  return (value) => {
    const choice = choices.find((candidate) => candidate === value);
    if (choice === undefined) {
      throw new UsageError(`${flag} must be one of ${choices.join(', ')}; got '${value}'.`);
    }
    return choice;
  };
}

export function nonEmpty(flag: string): OptionParser<string> {
  return (value) => {
    if (value.trim() === '') throw new UsageError(`${flag} must not be empty.`);
    return value;
  };
}
