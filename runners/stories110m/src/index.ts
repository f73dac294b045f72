export { load, type StoriesLoadOptions } from './pipeline.js';
export {
  LanguageModel,
  type Finish,
  type GeneratedText,
  type GenerateOptions,
  type Perplexity,
  type PerplexityOptions,
  type Prompt,
  type SampledToken,
  type SamplingOptions,
  type TextPart,
  type TextStream,
  type Usage,
} from '@mlx-runners/lm';
export type { DownloadProgress } from '@mlx-runners/hub';
export * from '@mlx-runners/runner/errors';
