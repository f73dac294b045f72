/** Text that is being generated, and what callers do with it. */
import { UsageError } from '@mlx-runners/mlx-core';
import type { SampledToken } from '@mlx-runners/mlx-core/program';
import { SharedIteration } from '@mlx-runners/mlx-core/shared-iteration';
import type { Tokenizer } from '@mlx-runners/text';
import { Completion, type Finish } from './completion.js';
import { Sampler } from './sampler.js';
import type { SamplingOptions } from './sampling-options.js';
import type { Sequence } from './sequence.js';

export interface GenerateOptions extends SamplingOptions {
  /** The most tokens of the text, its stop token not counted: as many as the context has room for, unless given. */
  maxTokens?: number | null;
  /** Texts that end it; they are not put out. */
  stop?: string | readonly string[] | null;
  /** Goes on after tokens that end an answer, whose text is put out. Default false. */
  ignoreStopIds?: boolean | null;
  signal?: AbortSignal;
  /** Told how many tokens of the prompt have been read. */
  onPrefill?: (done: number, total: number) => void;
}

/** What came at once. */
export interface TextPart {
  text: string;
  /** The tokens since the last part; those whose text is held back are here, too. */
  tokens: readonly SampledToken[];
}

export interface Usage {
  promptTokens: number;
  /** Those of the prompt that were known already and have not been read again. */
  cachedTokens: number;
  /** The stop token not counted. */
  completionTokens: number;
  /** Seconds until the first token was drawn. */
  prefillSeconds: number;
  /** Seconds from then on. */
  decodeSeconds: number;
}

export interface GeneratedText {
  text: string;
  tokens: readonly SampledToken[];
  finish: Finish;
  usage: Usage;
}

/**
 * Text that is being generated: iterate over it for parts as they come, or await `result()`. It is computed
 * once, from its first use on; leaving a loop early stops it.
 */
export interface TextStream extends AsyncIterable<TextPart> {
  /** The whole text, once it has ended. */
  result(): Promise<GeneratedText>;
}

export type TextEnd = Pick<GeneratedText, 'finish' | 'usage'>;

export class RunningGeneration extends SharedIteration<TextPart, TextEnd> implements TextStream {
  constructor(work: AsyncGenerator<TextPart, TextEnd>) {
    super(work, 'The text was stopped by leaving its loop early: start another one.');
  }

  async result(): Promise<GeneratedText> {
    const { parts, value } = await this.end();
    return {
      text: parts.map(({ text }) => text).join(''),
      tokens: parts.flatMap(({ tokens }) => tokens),
      ...value,
    };
  }
}

export interface GenerationModel {
  tokenizer: Tokenizer;
  stopIds: ReadonlySet<number>;
  samplingDefaults: SamplingOptions;
}

/** What one text needs. */
export interface GenerationPlan {
  sampler: Sampler;
  completion: Completion;
  /** Tokens that end it. */
  stopIds: ReadonlySet<number>;
  maxTokens: number;
  signal: AbortSignal | undefined;
  onPrefill: GenerateOptions['onPrefill'];
}

/**
 * @param model `samplingDefaults` are those of what is left out, undefined or null
 * @param continued the last token of a text that is continued
 * @throws UsageError for an option that there is not, or that makes no sense
 */
export function generationPlan(
  { tokenizer, stopIds: ends, samplingDefaults }: GenerationModel,
  options: GenerateOptions,
  continued?: number,
): GenerationPlan {
  const given = Object.entries(options).filter(
    ([, value]) => value !== undefined && value !== null,
  );
  const {
    maxTokens: most,
    stop,
    ignoreStopIds,
    signal,
    onPrefill,
    ...sampling
  }: GenerateOptions = {
    ...samplingDefaults,
    ...Object.fromEntries(given),
  };
  const maxTokens = most ?? Infinity;
  const stopIds = ignoreStopIds ? new Set<number>() : ends;
  const stopStrings = typeof stop === 'string' ? [stop] : (stop ?? []);
  const completion = new Completion({ tokenizer, stopIds, stopStrings, maxTokens, continued });
  return { sampler: new Sampler(sampling), completion, stopIds, maxTokens, signal, onPrefill };
}

/** @throws UsageError for a prompt of no tokens, or of more than a text may have */
export function checkPrompt(prompt: readonly number[], mostTokens: number): void {
  if (prompt.length === 0) {
    throw new UsageError('The prompt is empty: it needs at least one token.');
  }
  if (prompt.length <= mostTokens) return;
  throw new UsageError(
    `The prompt has ${prompt.length} tokens, more than the ${mostTokens} that there is room for.`,
  );
}

// Short enough to read along, long enough that handing tokens over costs next to nothing.
const burstSeconds = 0.05;

/**
 * Continues a prompt.
 *
 * @param sequence what it has of the prompt already is not read again; then it has the text as well, but for
 *   its last token
 */
export async function* generate(
  sequence: Sequence,
  prompt: readonly number[],
  { sampler, completion, stopIds, maxTokens, signal, onPrefill }: GenerationPlan,
): AsyncGenerator<TextPart, TextEnd> {
  const cachedTokens = sequence.reuse(prompt);
  const started = performance.now();
  let first = started;
  let next = prompt.slice(cachedTokens);
  while (!completion.finish) {
    const isFirst = first === started;
    const tokens = await sequence.continue(next, {
      sampler,
      stopIds,
      maxTokens: isFirst ? 1 : maxTokens - completion.tokens,
      maxSeconds: burstSeconds,
      signal,
      onProgress: isFirst ? onPrefill : undefined,
    });
    if (isFirst) {
      first = performance.now();
      onPrefill?.(next.length, next.length);
    }
    const part = taken(completion, tokens);
    next = [tokens[tokens.length - 1].id];
    if (!completion.finish && sequence.tokens.length === sequence.capacity) {
      part.text += completion.endAtLimit();
    }
    yield part;
  }
  const ended = performance.now();
  return {
    finish: completion.finish,
    usage: {
      promptTokens: prompt.length,
      cachedTokens,
      completionTokens: completion.tokens,
      prefillSeconds: (first - started) / 1000,
      decodeSeconds: (ended - first) / 1000,
    },
  };
}

/** Tokens behind the end, which were drawn before it was seen, are left out. */
export function taken(
  completion: Completion,
  tokens: readonly SampledToken[],
): { text: string; tokens: SampledToken[] } {
  const part = { text: '', tokens: [] as SampledToken[] };
  for (const token of tokens) {
    if (completion.finish) break;
    const before = completion.tokens;
    part.text += completion.push(token.id);
    if (completion.tokens > before) part.tokens.push(token);
  }
  return part;
}
