export {
  cTranslate2Bytes,
  type CTranslate2Options,
  type CTranslate2Variable,
} from './ctranslate2.js';
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
export { readGguf, type GgufFixture } from './gguf-reader.js';
export {
  ggufBytes,
  type GgufEntry,
  type GgufFileTensor,
  type GgufOptions,
  type GgufValueType,
} from './gguf-writer.js';
export {
  pyTorchBytes,
  type PyTorchObject,
  type PyTorchOptions,
  type PyTorchTensor,
} from './pytorch.js';
export {
  FixtureError,
  readSafetensors,
  SafetensorsFile,
  type FixtureData,
  type FixtureDtype,
  type FixtureTensor,
} from './safetensors.js';
export { byteMutations, type Mutation } from './fuzz/byte-mutations.js';
export { fuzz, type Files, type FuzzSubject, type FuzzSummary, type Reading } from './fuzz/fuzz.js';
export { inSafetensorsHeader, jsonMutations } from './fuzz/json-mutations.js';
export { expectRefusal } from './fuzz/refusal.js';
export { goldenCheckpoint } from './golden-checkpoint.js';
export {
  tinyChatTemplate,
  writeTinyLanguageModel,
  type TinyLanguageModelOptions,
} from './language-model.js';
export { tokenizerBin, writeTinyLlama2c } from './llama2c.js';
export { Random } from './random.js';
export { cliOf, type Cli, type CliOptions, type CliResult } from './run-cli.js';
export {
  pinkNoise,
  randomNumbers,
  silence,
  sine,
  whiteNoise,
  type NoiseOptions,
  type SignalOptions,
} from './signals.js';
