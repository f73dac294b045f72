export {
  fixtureNames,
  fixturePath,
  readJsonFixture,
  readTensorFixture,
  speechPath,
  type JsonFixtures,
} from './fixtures.js';
export type {
  TokenizerCase,
  TokenizerFixture,
  Transcription,
  TranscriptionCase,
  TranscriptionFixture,
} from './json-fixtures.js';
export {
  FixtureError,
  readSafetensors,
  SafetensorsFile,
  type FixtureData,
  type FixtureDtype,
  type FixtureTensor,
} from './safetensors.js';
export {
  pinkNoise,
  randomNumbers,
  silence,
  sine,
  whiteNoise,
  type NoiseOptions,
  type SignalOptions,
} from './signals.js';
