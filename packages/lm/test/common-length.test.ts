import { commonLength } from '@mlx-runners/lm/command-line';
import { expect, it } from 'vitest';

it('counts the tokens before two lists part', () => {
  expect(commonLength([1, 2, 3], [1, 2, 3])).toBe(3);
  expect(commonLength([1, 2, 3], [1, 2, 4])).toBe(2);
  expect(commonLength([1, 2, 3], [1])).toBe(1);
  expect(commonLength([1], [1, 2, 3])).toBe(1);
  expect(commonLength([1, 2, 3], [2, 2, 3])).toBe(0);
});
