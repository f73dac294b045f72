import { UsageError } from '@mlx-runners/mlx-core/errors';
import { expect, it } from 'vitest';
import { languageCode } from '../src/languages.js';

const known = ['en', 'zh', 'de', 'no', 'nn', 'mi', 'haw', 'jw', 'ht', 'yue'];

it.each([
  ['en', 'en'],
  ['EN', 'en'],
  [' de ', 'de'],
  ['en-US', 'en'],
  ['zh_TW', 'zh'],
  ['English', 'en'],
  ['german', 'de'],
  ['Māori', 'mi'],
  ['maori', 'mi'],
  ['Hawaiian', 'haw'],
  ['haitian creole', 'ht'],
  ['norwegian nynorsk', 'nn'],
  ['cantonese', 'yue'],
  // The code that everyone but Whisper has for Javanese.
  ['jv', 'jw'],
  ['javanese', 'jw'],
])('%j is %s', (language, code) => {
  expect(languageCode(language, known)).toBe(code);
});

it.each(['xx', 'klingon', 'fr', 'e', 'en glish', '-', '👍'])('%j is refused', (language) => {
  expect(() => languageCode(language, known)).toThrow(UsageError);
  expect(() => languageCode(language, known)).toThrow(
    `There is no language ${language}. Known are, also by their names, en zh de`,
  );
});
