import { UsageError } from '@mlx-runners/mlx-core/errors';
import { optionsOf } from '@mlx-runners/runner';
import { checkOptions, loadOptionsSchema, schemas } from '@mlx-runners/runner/library';
import { expect, test } from 'vitest';
import { z } from 'zod';

const schema = z.strictObject({
  language: schemas.nonEmpty().optional(),
  bestOf: schemas.wholeNumber({ min: 1, max: 8 }).default(5),
  seed: schemas.seed().optional(),
});

function refusal(options: unknown, of: z.ZodObject = schema): string {
  try {
    checkOptions('run()', of, options);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  return 'taken';
}

test('options that are right come back with their defaults', () => {
  expect(checkOptions('run()', schema, { language: 'en', seed: undefined })).toEqual({
    language: 'en',
    bestOf: 5,
  });
});

test.each([
  [{ languge: 'en' }, 'run() has no option languge: did you mean language?'],
  [{ bestof: 3 }, 'run() has no option bestof: did you mean bestOf?'],
  [{ beams: 3 }, 'run() has no option beams: there are language, bestOf, seed.'],
  [{ bestOf: '3' }, "bestOf must be a whole number from 1 to 8, not '3'."],
  [{ bestOf: NaN }, 'bestOf must be a whole number from 1 to 8, not NaN.'],
  [{ bestOf: null }, 'bestOf must be a whole number from 1 to 8, not null.'],
  [{ seed: 2 ** 32 }, 'seed must be a whole number from 0 to 4294967295, not 4294967296.'],
  [{ language: '' }, "language must be a text that is not empty, not ''."],
  [{ language: ['en'] }, "language must be a text that is not empty, not [ 'en' ]."],
  [null, 'The options of run() must be an object, not null.'],
  ['en', "The options of run() must be an object, not 'en'."],
  [[1], 'The options of run() must be an object, not [ 1 ].'],
])('%j is refused with what would be right', (options, message) => {
  expect(refusal(options)).toBe(message);
});

test('what every load() takes', () => {
  const onProgress = (): void => undefined;
  const { signal } = new AbortController();
  const options = { device: 'cpu', dtype: 'float16', signal, onProgress };
  expect(checkOptions('load()', loadOptionsSchema, options)).toEqual(options);
  expect(refusal({ dtype: 'int8' }, loadOptionsSchema)).toBe(
    "dtype must be one of float32, float16, bfloat16, not 'int8'.",
  );
  expect(refusal({ device: 'GPU' }, loadOptionsSchema)).toMatch(/one of cpu, gpu, not 'GPU'/);
  expect(refusal({ signal: {} }, loadOptionsSchema)).toMatch(/signal must be an AbortSignal/);
  expect(refusal({ onProgress: 1 }, loadOptionsSchema)).toMatch(/must be a function, not 1/);
});

test('a command passes on the options that a call knows', () => {
  expect(optionsOf(schema, { bestOf: 2, json: true, model: 'x' })).toEqual({ bestOf: 2 });
});
