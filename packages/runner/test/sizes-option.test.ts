import { UsageError } from '@mlx-runners/mlx-core/errors';
import { expect, test } from 'vitest';
import { parseSizes } from '../src/sizes-option.js';

const parse = parseSizes('--sizes');

test('sizes of methods: numbers, ranges, and the option again', () => {
  expect(parse('decode:T=1,past=0')).toEqual({ decode: [{ T: 1, past: 0 }] });
  const more = parse('decode:T=2..3, past=8..9', parse('decode:T=1,past=0'));
  expect(more).toEqual({
    decode: [
      { T: 1, past: 0 },
      { T: 2, past: 8 },
      { T: 2, past: 9 },
      { T: 3, past: 8 },
      { T: 3, past: 9 },
    ],
  });
  expect(parse('encode:N=480000', more)).toEqual({ ...more, encode: [{ N: 480_000 }] });
});

test.each([
  '',
  'decode',
  'decode:',
  ':T=1',
  'decode:T',
  'decode:T=',
  'decode:T=-1',
  'decode:T=1.5',
  'decode:T=1e3',
  'decode:T=3..1',
  'decode:T=1..',
  'decode:T=1;past=0',
  'decode:T=99999999999',
])('%j is refused', (text) => {
  expect(() => parse(text)).toThrow(UsageError);
  expect(() => parse(text)).toThrow(/such as decode:T=1,past=0\.\.9; got '/);
});

test('a range stands for no more than can be written', () => {
  expect(parse('decode:T=1..4096').decode).toHaveLength(4096);
  for (const text of ['decode:T=0..4096', 'decode:T=1..64,past=1..65', 'decode:T=0..2147483647']) {
    expect(() => parse(text)).toThrow('stands for more than 4096 sizes');
  }
});
