/** A language model with all that belongs to it: network, tokenizer, chat template, and where answers end. */
import { DisposedError, quoted, UsageError } from '@mlx-runners/mlx-core';
import type { ChatMessage, ChatTemplate, ChatTemplateOptions, Tokenizer } from '@mlx-runners/text';
import { BatchEngine } from './batch.js';
import type { BatchOptions } from './batch-options.js';
import { Conversation, type ConversationOptions } from './conversation.js';
import type { DecoderModel, KvCacheOptions } from './decoder-model.js';
import {
  checkPrompt,
  generate,
  generationPlan,
  RunningGeneration,
  type GenerateOptions,
  type GenerationPlan,
  type TextStream,
} from './generation.js';
import type { SamplingDefaults } from './generation-config.js';
import {
  loadParts,
  type LanguageModelParts,
  type LoadLanguageModelOptions,
} from './load-language-model.js';
import { perplexity, type Perplexity, type PerplexityOptions } from './perplexity.js';
import { readPromptCache, writePromptCache } from './prompt-cache-file.js';
import type { Sequence } from './sequence.js';

/** Text to be continued, messages to be answered, or token ids as they are. */
export type Prompt = string | readonly ChatMessage[] | readonly number[];

export class LanguageModel {
  readonly tokenizer: Tokenizer;
  /** None for base models. */
  readonly chatTemplate: ChatTemplate | undefined;
  /** Tokens that end an answer. */
  readonly stopIds: ReadonlySet<number>;
  /** What the model's generation_config.json recommends. */
  readonly samplingDefaults: SamplingDefaults;
  readonly #decoder: DecoderModel;
  readonly #kvCache: KvCacheOptions;
  /** The first text's sequence; later the last one's, whose beginning the next prompt may have. */
  #idle: Sequence | undefined;
  readonly #running = new Set<Sequence>();
  #disposed = false;

  private constructor(
    { decoder, tokenizer, template, stopIds: ends, samplingDefaults }: LanguageModelParts,
    kvCache: KvCacheOptions,
  ) {
    this.#kvCache = kvCache;
    this.#decoder = decoder;
    this.samplingDefaults = samplingDefaults;
    this.tokenizer = tokenizer;
    this.chatTemplate = template;
    this.stopIds = ends;
    this.#idle = decoder.sequence(kvCache);
  }

  /**
   * Loads a GGUF file, a folder of Hugging Face or MLX, or an export.
   *
   * @throws CheckpointError (for an export ProgramError) for what can't be used, UsageError for options that make
   *   no sense, AbortedError when the signal fires
   */
  static async load(path: string, options: LoadLanguageModelOptions = {}): Promise<LanguageModel> {
    const parts = await loadParts(path, options);
    try {
      return new LanguageModel(parts, options.kvCache ?? {});
    } catch (error) {
      parts.decoder.dispose();
      throw error;
    }
  }

  /** The most tokens of a sequence. */
  get contextLength(): number {
    return this.#decoder.constants.contextLength;
  }

  /**
   * Token ids of a prompt. A text gets the tokens that the model's texts begin with; messages are written as
   * its chat template has them, up to where its answer begins.
   *
   * @throws UsageError for messages to a model without a chat template, and for ids that it has no token for
   */
  encode(prompt: Prompt, options: ChatTemplateOptions = {}): number[] {
    const ids = this.#idsOf(prompt, options);
    const { vocabularySize } = this.#decoder.constants;
    const wrong = ids.find((id) => !(Number.isInteger(id) && id >= 0 && id < vocabularySize));
    if (wrong === undefined) return ids;
    throw new UsageError(
      `Token ids must be whole numbers from 0 to ${vocabularySize - 1}, not ${quoted(wrong)}.`,
    );
  }

  #idsOf(prompt: Prompt, options: ChatTemplateOptions): number[] {
    if (typeof prompt === 'string') {
      return this.tokenizer.encode(prompt, { addSpecialTokens: true });
    }
    if (!isList(prompt)) {
      throw new UsageError(
        `A prompt is a text, a list of messages or a list of token ids, not ${quoted(prompt)}.`,
      );
    }
    if (isIds(prompt)) return [...prompt];
    if (!this.chatTemplate) {
      throw new UsageError(
        'This model has no chat template, as base models do: give it a text to continue.',
      );
    }
    return this.tokenizer.encode(
      this.chatTemplate.apply(prompt, {
        addGenerationPrompt: true,
        ...options,
      }),
    );
  }

  /**
   * Continues a prompt. Nothing happens before it is iterated over or its `result()` is awaited.
   *
   * @throws at once UsageError for options and prompts that make no sense, and DisposedError; from the iteration
   *   or `result()` AbortedError when the signal fires
   */
  generate(prompt: Prompt, options: GenerateOptions = {}): TextStream {
    this.#checkOpen();
    const ids = this.encode(prompt);
    checkPrompt(ids, this.contextLength);
    const continued = typeof prompt === 'string' ? ids.at(-1) : undefined;
    return new RunningGeneration(this.#run(ids, generationPlan(this, options, continued)));
  }

  /**
   * A batch, which continues many prompts at once. It stays usable until it is disposed itself.
   *
   * @param options `cells`: how many tokens its cache holds, those of all texts together; 8,192 unless given
   * @throws UsageError for options that make no sense, and for exports that compute one sequence at a time
   */
  batch({ cells = 8192, ...options }: BatchOptions & { cells?: number } = {}): BatchEngine {
    this.#checkOpen();
    const steps = this.#decoder.steps({ cells, storage: this.#kvCache.storage });
    try {
      return new BatchEngine(this, steps, options);
    } catch (error) {
      steps.dispose();
      throw error;
    }
  }

  /** A conversation, which remembers what was said. */
  conversation(options: ConversationOptions = {}): Conversation {
    this.#checkOpen();
    return new Conversation(this, options);
  }

  /**
   * How well the model predicts a text.
   *
   * @param text or its token ids, at least 2
   */
  async perplexity(
    text: string | readonly number[],
    options: PerplexityOptions = {},
  ): Promise<Perplexity> {
    this.#checkOpen();
    using sequence = this.#decoder.sequence(this.#kvCache);
    return await perplexity(sequence, this.encode(text), options);
  }

  /**
   * Writes what is known of the last prompt and its text to a file, for `loadPromptCache`. Makes missing folders.
   *
   * @throws UsageError when there is none, or a text is under way; FileError
   */
  async savePromptCache(path: string): Promise<void> {
    this.#checkOpen();
    const sequence = this.#idle;
    if (!sequence) {
      throw new UsageError('A text is under way: its prompt can be saved once it has ended.');
    }
    // Nobody else may go on with it meanwhile.
    this.#idle = undefined;
    try {
      await writePromptCache(path, sequence, this.#decoder.fingerprint);
    } finally {
      this.#giveBack(sequence);
    }
  }

  /**
   * Reads what `savePromptCache` wrote: a prompt that begins alike is not read from its beginning.
   *
   * @throws CheckpointError for a file that isn't one, or of another model or another `kvCache`
   */
  async loadPromptCache(path: string): Promise<void> {
    this.#checkOpen();
    const sequence = await readPromptCache(path, this.#decoder, this.#kvCache);
    this.#idle?.dispose();
    this.#idle = undefined;
    this.#giveBack(sequence);
    this.#checkOpen();
  }

  async *#run(ids: readonly number[], plan: GenerationPlan) {
    const sequence = this.#idle ?? this.#decoder.sequence(this.#kvCache);
    this.#idle = undefined;
    this.#running.add(sequence);
    try {
      return yield* generate(sequence, ids, plan);
    } catch (error) {
      if (!(this.#disposed && error instanceof DisposedError)) throw error;
      const message = 'The model was disposed before the text had ended.';
      throw new DisposedError(message, { cause: error });
    } finally {
      this.#running.delete(sequence);
      this.#giveBack(sequence);
    }
  }

  /** One is kept for the next prompt. */
  #giveBack(sequence: Sequence): void {
    if (this.#idle || this.#disposed) sequence.dispose();
    else this.#idle = sequence;
  }

  #checkOpen(): void {
    if (this.#disposed) throw new DisposedError('The model was disposed.');
  }

  /** Frees the weights. Twice is fine; a text under way fails with a DisposedError. */
  dispose(): Promise<void> {
    this.#disposed = true;
    this.#idle?.dispose();
    this.#idle = undefined;
    for (const sequence of this.#running) sequence.dispose();
    this.#decoder.dispose();
    return Promise.resolve();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

function isList(prompt: unknown): prompt is readonly unknown[] {
  return Array.isArray(prompt);
}

function isIds(prompt: readonly ChatMessage[] | readonly number[]): prompt is readonly number[] {
  return prompt.every((each) => typeof each === 'number');
}
