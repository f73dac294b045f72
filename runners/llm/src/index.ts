export { load, type LlmLoadOptions } from './pipeline.js';
export {
  BatchEngine,
  Conversation,
  LanguageModel,
  type BatchOptions,
  type BatchStatus,
  type ConversationOptions,
  type Finish,
  type GeneratedText,
  type GenerateOptions,
  type KvCacheOptions,
  type Perplexity,
  type PerplexityOptions,
  type Prompt,
  type SampledToken,
  type SamplingOptions,
  type TextPart,
  type TextStream,
  type Usage,
} from '@mlx-runners/lm';
export type { ChatMessage } from '@mlx-runners/text';
export type { DownloadProgress } from '@mlx-runners/hub';
export * from '@mlx-runners/runner/errors';
