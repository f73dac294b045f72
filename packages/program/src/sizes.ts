/**
 * Sizes: integers that are known when a method is called. A size is a number, a declared dimension by
 * its name, or computed from sizes. The interpreter does the same in native/program/sizes.cpp.
 */
import { ProgramError } from '@mlx-runners/mlx-core/errors';

/** Floor division rounds towards minus infinity, and its divisor is positive. */
export type SizeOperator = '+' | '*' | '//' | 'max';

export type Size = number | string | readonly [SizeOperator, Size, Size];

/** The values of the declared dimensions in one call. */
export type Sizes = Readonly<Record<string, number>>;

export function sameSize(a: Size | undefined, b: Size | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function evaluateSize(size: Size, sizes: Sizes): number {
  if (typeof size === 'number') return size;
  if (typeof size === 'string') {
    if (!Object.hasOwn(sizes, size)) throw new ProgramError(`There is no dimension ${size}.`);
    return sizes[size];
  }
  const [operator, left, right] = size;
  return compute(operator, evaluateSize(left, sizes), evaluateSize(right, sizes));
}

/** The dimensions that a size is computed from. */
export function dimensionsOf(size: Size, found = new Set<string>()): Set<string> {
  if (typeof size === 'string') found.add(size);
  if (typeof size === 'object') for (const each of size.slice(1)) dimensionsOf(each, found);
  return found;
}

function compute(operator: SizeOperator, a: number, b: number): number {
  switch (operator) {
    case '+':
      return a + b;
    case '*':
      return a * b;
    case '//':
      return Math.floor(a / b);
    case 'max':
      return Math.max(a, b);
  }
}

/** `(T + 7) // 8`: for people. */
export function formatSize(size: Size): string {
  if (typeof size !== 'object') return String(size);
  const [operator, left, right] = size;
  if (operator === 'max') return `max(${formatSize(left)}, ${formatSize(right)})`;
  if (operator === '+' && typeof right === 'number' && right < 0) {
    return `${formatSize(left)} - ${-right}`;
  }
  return `${operand(operator, left)} ${operator} ${operand(operator, right)}`;
}

function operand(outer: SizeOperator, size: Size): string {
  const text = formatSize(size);
  const closed = typeof size !== 'object' || size[0] === 'max';
  return closed || outer === '+' ? text : `(${text})`;
}

/** a + b, without what adds nothing. */
export function plus(a: Size, b: Size): Size {
  if (typeof a === 'number' && typeof b === 'number') return a + b;
  if (a === 0) return b;
  if (b === 0) return a;
  return ['+', a, b];
}

/** a · b, without what changes nothing. */
export function times(a: Size, b: Size): Size {
  if (typeof a === 'number' && typeof b === 'number') return a * b;
  if (a === 0 || b === 0) return 0;
  if (a === 1) return b;
  if (b === 1) return a;
  return ['*', a, b];
}

export function floorDivide(a: Size, divisor: number): Size {
  return divisor === 1 ? a : ['//', a, divisor];
}
