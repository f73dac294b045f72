import { UsageError } from '@mlx-runners/mlx-core/errors';
import { nonEmpty, oneOf, valueOf, wholeNumber } from '@mlx-runners/runner';
import { schemas } from '@mlx-runners/runner/library';
import { expect, test } from 'vitest';
import { z } from 'zod';

function refuses(parse: (value: string) => unknown, values: string[], message: RegExp): void {
  for (const value of values) {
    expect(() => parse(value), value).toThrow(UsageError);
    expect(() => parse(value), value).toThrow(message);
  }
}

test('whole numbers', () => {
  const parse = wholeNumber('--beams', { min: 1, max: 8 });
  expect(['1', '8', '+3', '2.0'].map(parse)).toEqual([1, 8, 3, 2]);
  const message = /^--beams must be a whole number from 1 to 8; got '/;
  refuses(parse, ['0', '9', '-1', '2.5', '1e1', '0x2', '', ' ', 'many', '٣'], message);
  refuses(wholeNumber('--seed'), ['9007199254740993'], /of at least 0/);
});

test('numbers', () => {
  const parse = valueOf('--temperature', schemas.finiteNumber({ min: 0, max: 1 }));
  expect(['0', '.5', '1e-1'].map(parse)).toEqual([0, 0.5, 0.1]);
  const message = /^--temperature must be a number of at least 0 and at most 1; got '/;
  refuses(parse, ['-0.1', '1.01', 'NaN', 'Infinity', '1e999', '', ' ', '1,5', 'hot'], message);
  refuses(valueOf('--x', schemas.finiteNumber({ max: 1 })), ['2'], /a number of at most 1;/);
  refuses(valueOf('--x', schemas.finiteNumber()), ['1e999', '0x10'], /a number; got '/);
});

test('lists', () => {
  const number = schemas.finiteNumber({ min: 0 });
  const parse = valueOf('--steps', z.union([number, z.array(number)], 'must be numbers'));
  expect(['1', '0,0.5', '1, 2'].map(parse)).toEqual([1, [0, 0.5], [1, 2]]);
  refuses(parse, ['1,', '1,,2', '1;2', '1,-1'], /^--steps must be numbers; got '/);
});

test('one of', () => {
  const parse = oneOf('--device', ['cpu', 'gpu']);
  expect(parse('gpu')).toBe('gpu');
  refuses(parse, ['GPU', '', 'cpu,gpu'], /^--device must be one of cpu, gpu; got '/);
});

test('not empty', () => {
  expect(nonEmpty('--model')('x')).toBe('x');
  refuses(nonEmpty('--model'), ['', '  '], /^--model must be a text that is not empty; got '/);
});
