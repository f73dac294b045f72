import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { GenerationOptions } from '@mlx-runners/runner';
import type { GenerateOptions } from '../generation.js';
import type { LanguageModel } from '../language-model.js';
import { checkedSampling, type SamplingOptions } from '../sampling-options.js';

// Small models at 1 say anything.
const usualTemperature = 0.7;

/** What was given on the command line; else what the model's files recommend. */
export function generateOptions(model: LanguageModel, options: GenerationOptions): GenerateOptions {
  const { maxTokens, stop, ignoreStopIds } = options;
  const temperature = model.samplingDefaults.temperature ?? usualTemperature;
  return { maxTokens, stop, ignoreStopIds, temperature, ...samplingOptions(options) };
}

/**
 * Holds what was given against the library's limits before a model is loaded.
 *
 * @throws UsageError that names the flag
 */
export function checkGenerationOptions(options: GenerationOptions): void {
  for (const [name, value] of Object.entries<unknown>({ ...samplingOptions(options) })) {
    try {
      checkedSampling({ [name]: value });
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(error.message.replace(name, flagOf(name)), { cause: error });
    }
  }
}

/** Those that were given. */
function samplingOptions(options: GenerationOptions): SamplingOptions {
  const { temperature, topK, topP, minP, typicalP, xtcProbability, xtcThreshold } = options;
  const { repetitionPenalty, presencePenalty, frequencyPenalty, logitBias, seed } = options;
  const all = {
    ...{ temperature, topK, topP, minP, typicalP, xtcProbability, xtcThreshold },
    ...{ repetitionPenalty, presencePenalty, frequencyPenalty, logitBias, seed },
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** `topP` → `--top-p` */
function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
