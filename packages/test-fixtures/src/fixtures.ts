import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { TokenizerFixture, TranscriptionFixture } from './json-fixtures.js';
import { FixtureError, readSafetensors, type SafetensorsFile } from './safetensors.js';

// `src` and `dist` lie equally deep, so one relative address serves both.
const GOLDENS = fileURLToPath(new URL('../goldens/', import.meta.url));
const SPEECH = fileURLToPath(new URL('../speech/', import.meta.url));

/** JSON fixtures by file name, with the type of their content. */
export interface JsonFixtures {
  'real_whisper_base.json': TranscriptionFixture;
  'tokenizer_gemma3.json': TokenizerFixture;
  'tokenizer_smollm2.json': TokenizerFixture;
  'tokenizer_whisper.json': TokenizerFixture;
}

/** File names of all goldens (or of those that start with `prefix`), sorted. */
export function fixtureNames(prefix = ''): string[] {
  return readdirSync(GOLDENS)
    .filter((name) => name.startsWith(prefix))
    .sort();
}

/**
 * Absolute path of a golden, by file name: `fixturePath('whisper_dtw.safetensors')`.
 *
 * @throws FixtureError where there is no such golden.
 */
export function fixturePath(name: string): string {
  if (!fixtureNames().includes(name)) {
    throw new FixtureError(`No fixture '${name}'; there are: ${fixtureNames().join(', ')}`);
  }
  return GOLDENS + name;
}

/** Tensors and metadata of a `.safetensors` golden. */
export function readTensorFixture(name: string): SafetensorsFile {
  return readSafetensors(fixturePath(name));
}

/** Content of a `.json` golden. */
export function readJsonFixture<Name extends keyof JsonFixtures>(name: Name): JsonFixtures[Name] {
  return JSON.parse(readFileSync(fixturePath(name), 'utf8')) as JsonFixtures[Name];
}

/**
 * Absolute path of a speech recording. `jfk.wav`: 11 s, 16 kHz, mono, 16 bit; it has a LIST chunk
 * between `fmt ` and `data`, as real files do.
 *
 * @throws FixtureError where there is no such recording.
 */
export function speechPath(name = 'jfk.wav'): string {
  const path = SPEECH + name;
  if (!existsSync(path)) {
    throw new FixtureError(`No speech '${name}'; there are: ${readdirSync(SPEECH).join(', ')}`);
  }
  return path;
}
