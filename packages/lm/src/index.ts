export { computeIn, usualDtype } from './activation-dtype.js';
export { BatchEngine, type BatchModel, type BatchStatus } from './batch.js';
export type { BatchOptions } from './batch-options.js';
export {
  loadDecoder,
  readDecoderCheckpoint,
  type DecoderCheckpoint,
  type LoadDecoderOptions,
} from './checkpoint.js';
export { Completion, type CompletionOptions, type Finish } from './completion.js';
export { Conversation, type ConversationOptions } from './conversation.js';
export { DecoderModel, type KvCacheOptions } from './decoder-model.js';
export {
  cacheLayers,
  decoderConstants,
  decoderProgram,
  type DecoderConstants,
  type DecoderProgramOptions,
} from './decoder-program.js';
export { convertCheckpoint, type Conversion, type ConvertOptions } from './convert.js';
export { writeTexts } from './converted-texts.js';
export { Decoder, type DecoderInput, type DecoderOutput, type Position } from './decoder.js';
export { familyOf, type Family } from './families.js';
export type { GeneratedText, GenerateOptions, TextPart, TextStream, Usage } from './generation.js';
export {
  GrowingCache,
  type AttendOptions,
  type DecoderCache,
  type LayerCache,
  type LayerLayout,
} from './kv-cache.js';
export { LanguageModel, type Prompt } from './language-model.js';
export type { LoadLanguageModelOptions } from './load-language-model.js';
export type { Logprob, SampledToken, TokenLogprobs } from '@mlx-runners/mlx-core/program';
export type { Perplexity, PerplexityOptions } from './perplexity.js';
export { Sampler } from './sampler.js';
export type { Sampling, SamplingOptions } from './sampling-options.js';
export { Scheduler, type SchedulerOptions, type SessionStep } from './scheduler.js';
export { Sequence, type ContinueOptions, type FeedOptions } from './sequence.js';
export { MAX_SEQUENCES, type CellSequences, type StepInput, type StepModel } from './step-model.js';
export type { StepOptions } from './decoder-steps.js';
export { stopIds, type StopIdSources } from './stop-ids.js';
export { StopStrings } from './stop-strings.js';
