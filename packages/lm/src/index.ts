export { Completion, type CompletionOptions, type Finish } from './completion.js';
export type { Logprob, TokenLogprobs } from './logprobs.js';
export { Sampler, type SampledToken } from './sampler.js';
export type { Sampling, SamplingOptions } from './sampling-options.js';
export { stopIds, type StopIdSources } from './stop-ids.js';
export { StopStrings } from './stop-strings.js';
export {
  loadDecoder,
  readDecoderCheckpoint,
  type DecoderCheckpoint,
  type LoadDecoderOptions,
} from './checkpoint.js';
export { Decoder, type DecoderInput, type DecoderOutput, type Position } from './decoder.js';
export { familyOf, type Family } from './families.js';
export {
  GrowingCache,
  type AttendOptions,
  type DecoderCache,
  type LayerCache,
  type LayerLayout,
} from './kv-cache.js';
