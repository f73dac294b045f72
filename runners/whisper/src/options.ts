/** The options of `transcribe`: one schema for the library and the command line. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { checkOptions, schemas } from '@mlx-runners/runner/library';
import { z } from 'zod';
import { languageCode } from './languages.js';

const temperature = schemas.finiteNumber({ min: 0, max: 2 });

const temperatures = z.custom<number | readonly number[]>((value) => {
  // every() passes over the holes of a list; a copy has none.
  const list: unknown[] = Array.isArray(value) ? Array.from<unknown>(value) : [value];
  return list.length > 0 && list.every((each) => temperature.safeParse(each).success);
}, 'must be a number of at least 0 and at most 2, or a list of them');

export const transcribeOptionsSchema = z.strictObject({
  /** `transcribe` keeps the language; `translate` gives English. */
  task: schemas.oneOf(['transcribe', 'translate']).default('transcribe'),
  /** Code or English name of the language, such as `en`; detected from the first speech unless given. */
  language: schemas.nonEmpty().optional(),
  /** Tried in order until one gives a plausible text. */
  temperature: temperatures.default([0, 0.2, 0.4, 0.6, 0.8, 1]),
  /** Candidates at temperatures above 0. */
  bestOf: schemas.wholeNumber({ min: 1, max: 64 }).default(5),
  /** A text that compresses better than this repeats itself: the next temperature is tried. */
  compressionRatioThreshold: schemas.finiteNumber({ min: 0 }).default(2.4),
  /** A text less likely than this is tried again at the next temperature. */
  logprobThreshold: schemas.finiteNumber().default(-1),
  /** A window is silent when no-speech is likelier than this and its text is unlikely. */
  noSpeechThreshold: schemas.finiteNumber({ min: 0, max: 1 }).default(0.6),
  /** Whether each window is decoded with the text before it as a prompt. */
  conditionOnPreviousText: z.boolean('must be true or false').default(true),
  /** Text that is shown to the model before the first window: names, style. */
  initialPrompt: z.string('must be a text').optional(),
  /** Seed of sampling at temperatures above 0. */
  seed: schemas.seed().default(0),
  signal: schemas.abortSignal().optional(),
  /** Called after each window with the seconds of audio done. */
  onProgress: schemas.callback<{ seconds: number; duration: number }>().optional(),
});

export type TranscribeOptions = z.input<typeof transcribeOptionsSchema>;

/** Options with every default filled in. */
export type Settings = Omit<z.output<typeof transcribeOptionsSchema>, 'temperature'> & {
  temperature: readonly number[];
};

/**
 * @param languages codes that the model knows; only `en` for English-only models
 * @throws UsageError for options that are unknown, wrong, or not for this model
 */
export function transcribeSettings(
  options: TranscribeOptions,
  languages: readonly string[],
): Settings {
  const given = checkOptions('transcribe()', transcribeOptionsSchema, options);
  if (given.task === 'translate' && languages.length === 1) {
    throw new UsageError('An English-only model can not translate.');
  }
  const language = given.language && languageCode(given.language, languages);
  return { ...given, language, temperature: [given.temperature].flat() };
}
