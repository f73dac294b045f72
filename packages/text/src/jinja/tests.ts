/** Jinja's tests (jinja2/tests.py): what may stand after `is`. */

import type { Arguments } from './methods.js';
import { binary, contains } from './operators.js';
import {
  compare,
  equals,
  Float,
  isNumber,
  numberOf,
  TemplateError,
  typeName,
  Undefined,
  type Value,
} from './values.js';

type Test = (value: Value, other: Value) => boolean;

const remainder = (value: Value, by: number) => {
  if (isNumber(value)) return numberOf(binary('%', value, by) as number | Float);
  throw new TemplateError(`a number is required, not ${typeName(value)}`);
};

const ordered =
  (fits: (difference: number) => boolean): Test =>
  (value, other) =>
    fits(compare(value, other));

const greater = ordered((difference) => difference > 0);
const greaterOrEqual = ordered((difference) => difference >= 0);
const less = ordered((difference) => difference < 0);
const lessOrEqual = ordered((difference) => difference <= 0);

const isText = (value: Value): value is string => typeof value === 'string';

const TESTS: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === 'boolean',
  callable: (value) => typeof value === 'function',
  defined: (value) => !(value instanceof Undefined),
  divisibleby: (value, other) => remainder(value, numberOf(other as number)) === 0,
  eq: equals,
  equalto: equals,
  escaped: () => false,
  even: (value) => remainder(value, 2) === 0,
  false: (value) => value === false,
  float: (value) => value instanceof Float,
  ge: greaterOrEqual,
  greaterthan: greater,
  gt: greater,
  in: (value, other) => contains(other, value),
  integer: (value) => typeof value === 'number',
  iterable: (value) =>
    isText(value) || Array.isArray(value) || value instanceof Map || value instanceof Undefined,
  le: lessOrEqual,
  lessthan: less,
  lower: (value) => isText(value) && value === value.toLowerCase() && value !== value.toUpperCase(),
  lt: less,
  mapping: (value) => value instanceof Map,
  ne: (value, other) => !equals(value, other),
  none: (value) => value === null,
  number: isNumber,
  odd: (value) => remainder(value, 2) === 1,
  sameas: (value, other) => value === other,
  sequence: (value) =>
    isText(value) || Array.isArray(value) || value instanceof Map || value instanceof Undefined,
  string: isText,
  true: (value) => value === true,
  undefined: (value) => value instanceof Undefined,
  upper: (value) => isText(value) && value === value.toUpperCase() && value !== value.toLowerCase(),
};

const SYMBOLS: Readonly<Record<string, string>> = {
  '==': 'eq',
  '!=': 'ne',
  '<': 'lt',
  '<=': 'le',
  '>': 'gt',
  '>=': 'ge',
};

/** @throws TemplateError for a test that there is not */
export function test(name: string, value: Value, args: Arguments): boolean {
  const known = SYMBOLS[name] ?? name;
  if (!Object.hasOwn(TESTS, known)) throw new TemplateError(`No test named '${name}'.`);
  return TESTS[known](value, args.get(0, 'other', null));
}
