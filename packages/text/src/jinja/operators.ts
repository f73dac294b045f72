/** Python's operators. */

import { dictKey } from './methods.js';
import { percentFormat } from './python-text.js';
import {
  compare,
  equals,
  Float,
  isNumber,
  numberOf,
  repr,
  TemplateError,
  text,
  Tuple,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** All but `and` and `or`, which don't always look at their right side. */
export function binary(operator: string, left: Value, right: Value): Value {
  switch (operator) {
    case '==':
      return equals(left, right);
    case '!=':
      return !equals(left, right);
    case '<':
      return compare(left, right, '<') < 0;
    case '<=':
      return compare(left, right, '<=') <= 0;
    case '>':
      return compare(left, right, '>') > 0;
    case '>=':
      return compare(left, right, '>=') >= 0;
    case 'in':
      return contains(right, left);
    case 'not in':
      return !contains(right, left);
    case '~':
      return text(left) + text(right);
    default:
      return arithmetic(operator, left, right);
  }
}

export function contains(container: Value, value: Value): boolean {
  if (Array.isArray(container)) return container.some((item) => equals(item, value));
  if (container instanceof Map) return container.has(dictKey(value));
  if (container instanceof Undefined) return false;
  if (typeof container === 'string') {
    if (typeof value === 'string') return container.includes(value);
    if (value instanceof Undefined) value.fail();
    throw new TemplateError(
      `'in <string>' requires string as left operand, not ${typeName(value)}`,
    );
  }
  throw new TemplateError(`argument of type '${typeName(container)}' is not iterable`);
}

function arithmetic(operator: string, left: Value, right: Value): Value {
  if (left instanceof Undefined) left.fail();
  if (right instanceof Undefined) right.fail();
  if (isNumber(left) && isNumber(right)) return numeric(operator, left, right);
  if (operator === '+') {
    if (typeof left === 'string' && typeof right === 'string') return left + right;
    if (Array.isArray(left) && Array.isArray(right) && isTuple(left) === isTuple(right)) {
      const items = [...left, ...right];
      return isTuple(left) ? tuple(items) : items;
    }
  }
  if (operator === '*') {
    const [repeated, count] = typeof left === 'number' ? [right, left] : [left, right];
    if (typeof count === 'number' && typeof repeated === 'string') {
      return repeated.repeat(Math.max(0, count));
    }
    if (typeof count === 'number' && Array.isArray(repeated)) {
      return Array.from({ length: Math.max(0, count) }, () => repeated).flat();
    }
  }
  if (operator === '%' && typeof left === 'string') {
    const values = right instanceof Tuple ? right : [right];
    return percentFormat(left, values, { text, repr, number: asNumber });
  }
  throw new TemplateError(
    `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`,
  );
}

function isTuple(value: Value): boolean {
  return value instanceof Tuple;
}

function asNumber(value: Value): number {
  if (isNumber(value)) return numberOf(value);
  throw new TemplateError(`a number is required, not ${typeName(value)}`);
}

function numeric(
  operator: string,
  left: number | boolean | Float,
  right: number | boolean | Float,
): Value {
  const [a, b] = [numberOf(left), numberOf(right)];
  if ('/%'.includes(operator[0]) && b === 0) throw new TemplateError('division by zero');
  const isFloat = left instanceof Float || right instanceof Float;
  const result = (value: number) => (isFloat ? new Float(value) : value);
  switch (operator) {
    case '+':
      return result(a + b);
    case '-':
      return result(a - b);
    case '*':
      return result(a * b);
    case '/':
      return new Float(a / b);
    case '//':
      return result(Math.floor(a / b));
    case '%':
      return result(a - b * Math.floor(a / b));
    case '**':
      return b < 0 ? new Float(a ** b) : result(a ** b);
    default:
      throw new TemplateError(`unknown operator ${operator}`);
  }
}

export function unary(operator: string, value: Value): Value {
  if (value instanceof Undefined) value.fail();
  if (!isNumber(value)) {
    throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  }
  const number = numberOf(value) * (operator === '-' ? -1 : 1);
  // Whole numbers have no −0.
  return value instanceof Float ? new Float(number) : number + 0;
}

/** `value[start:stop:step]` of a list, a tuple or, by code points, a text. */
export function slice(
  value: Value,
  ...[start, stop, step]: readonly [Value | undefined, Value | undefined, Value | undefined]
): Value {
  if (value instanceof Undefined) value.fail();
  if (typeof value !== 'string' && !Array.isArray(value)) {
    throw new TemplateError(`'${typeName(value)}' object can't be sliced`);
  }
  const items: readonly Value[] = typeof value === 'string' ? Array.from(value) : value;
  const by = bound(step) ?? 1;
  if (by === 0) throw new TemplateError('slice step cannot be zero');
  const [low, high] = by > 0 ? [0, items.length] : [-1, items.length - 1];
  const clamp = (index: number) =>
    Math.min(Math.max(index < 0 ? index + items.length : index, low), high);
  const from = bound(start) ?? undefined;
  const to = bound(stop) ?? undefined;
  const first = from === undefined ? (by > 0 ? low : high) : clamp(from);
  const end = to === undefined ? (by > 0 ? high : low) : clamp(to);
  const picked: Value[] = [];
  for (let i = first; by > 0 ? i < end : i > end; i += by) picked.push(items[i]);
  if (typeof value === 'string') return picked.map(text).join('');
  return value instanceof Tuple ? tuple(picked) : picked;
}

function bound(value: Value | undefined): number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value);
  if (value instanceof Undefined) value.fail();
  throw new TemplateError(`slice indices must be integers or None, not ${typeName(value)}`);
}
