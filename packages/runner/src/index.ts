/** What a runner's command line needs; what its library needs too is in library.ts. */
export {
  benchFileSchema,
  benchRow,
  benchTable,
  machineDescription,
  writeBenchFile,
  type BenchFile,
  type BenchRow,
  type Machine,
} from './bench.js';
export {
  benchLog,
  wantedPeers,
  withBenchOptions,
  type BenchLog,
  type BenchOptions,
} from './bench-options.js';
export { optionsOf } from './options-of.js';
export {
  createProgram,
  EXIT_FAILURE,
  EXIT_MISUSE,
  EXIT_OK,
  printError,
  printWarning,
  runProgram,
} from './command-line.js';
export {
  addExportCommands,
  type ExportCommandsOptions,
  type ExportSubject,
} from './export-commands.js';
export { withGenerationOptions, type GenerationOptions } from './generation-options.js';
export { addGoldenCommand, type GoldenChecker } from './golden.js';
export {
  compareFloats,
  compareIntegers,
  DEFAULT_TOLERANCE,
  type ComparableTensor,
  type GoldenResult,
  type Margins,
} from './golden-comparison.js';
export {
  readGolden,
  type GoldenFixture,
  type GoldenMetadata,
  type JsonGolden,
  type LoadTensors,
  type TensorGolden,
} from './golden-fixture.js';
export { EXIT_INTERRUPTED, interruptSignal, onInterrupt } from './interruption.js';
export { LineProcess } from './line-process.js';
export {
  loadAsGiven,
  precisionOption,
  withLanguageModelOptions,
  type LanguageModelOptions,
} from './language-model-options.js';
export {
  measureInTurns,
  median,
  type Contestant,
  type MeasuredFunction,
  type MeasuredProgram,
  type Measurement,
} from './measure-in-turns.js';
export { addModelsCommand, type ModelsCommandOptions } from './models.js';
export { nonEmpty, oneOf, valueOf, wholeNumber, type OptionParser } from './option-values.js';
export { isPreloadedOpenblas, openblasPreload } from './openblas-preload.js';
export { planOutput, type OutputPlan } from './output-plan.js';
export { peakBytes } from './peak-memory.js';
export { nodeModulesWith, pythonWith, whyNoPeers } from './peer-packages.js';
export {
  audioProgress,
  downloadProgress,
  type Progress,
  type ProgressOptions,
} from './progress.js';
export { readPrompt } from './read-prompt.js';
export {
  choice,
  withLogOptions,
  withModelOptions,
  withOutputOptions,
  withSeedOption,
  type LogOptions,
  type ModelOptions,
  type OutputOptions,
  type SeedOptions,
} from './shared-options.js';
export { userModel, userPath } from './user-path.js';
