/** A call of an op with what it gives, and the short ways to write them. */
import { mx, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import type { Nested } from '../expectations.js';

export interface OpCase {
  args: () => readonly unknown[];
  /** One value; or one for each result of an op that gives several. */
  gives: Nested;
  dtype?: Dtype;
  tolerance?: number;
}

export const array = (data: Nested, dtype?: Dtype): MxArray => mx.array(data, undefined, dtype);
export const ints = (data: Nested): MxArray => array(data, 'int32');
export const bools = (data: Nested): MxArray => array(data, 'bool_');
/** Pairs of real and imaginary parts. */
export const complex = (pairs: readonly number[]): MxArray => array(pairs).view('complex64');

export const matrix = [
  [1, 2, 3],
  [4, 5, 6],
];

export function one(input: Nested, gives: Nested, dtype?: Dtype): OpCase[] {
  return [{ args: () => [array(input)], gives, dtype }];
}
export function two(a: Nested, b: Nested, gives: Nested, dtype?: Dtype): OpCase[] {
  return [{ args: () => [array(a), array(b)], gives, dtype }];
}
export function onInts(a: Nested, b: Nested, gives: Nested, dtype: Dtype = 'int32'): OpCase[] {
  return [{ args: () => [ints(a), ints(b)], gives, dtype }];
}
/** A matrix op: its value over everything and over axis 1 with the axis kept. */
export function reduced(whole: Nested, rows: Nested, dtype?: Dtype): OpCase[] {
  return [
    { args: () => [array(matrix)], gives: whole, dtype },
    { args: () => [array(matrix), 1, true], gives: rows, dtype },
    { args: () => [array(matrix), [0, -1]], gives: whole, dtype },
  ];
}
