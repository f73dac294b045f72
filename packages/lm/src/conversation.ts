/** A conversation with a model. */
import { UsageError } from '@mlx-runners/mlx-core';
import type { ChatMessage, ChatTemplateOptions } from '@mlx-runners/text';
import {
  RunningGeneration,
  type GenerateOptions,
  type TextEnd,
  type TextPart,
  type TextStream,
} from './generation.js';
import type { LanguageModel } from './language-model.js';

export interface ConversationOptions extends GenerateOptions {
  /** What the model is told before anything is said. */
  system?: string;
  /** Further variables of the chat template. */
  template?: ChatTemplateOptions;
}

export class Conversation {
  readonly #model: LanguageModel;
  readonly #options: GenerateOptions;
  readonly #template: ChatTemplateOptions;
  readonly #system: readonly ChatMessage[];
  #messages: readonly ChatMessage[] = [];
  #isAnswering = false;

  /** @internal Use `LanguageModel.conversation`. */
  constructor(model: LanguageModel, { system, template = {}, ...options }: ConversationOptions) {
    if (!model.chatTemplate) {
      throw new UsageError('This model has no chat template, as base models do: it has no turns.');
    }
    this.#model = model;
    this.#options = options;
    this.#template = template;
    this.#system = system === undefined ? [] : [{ role: 'system', content: system }];
  }

  /** All that was said, the system's message first. */
  get messages(): readonly ChatMessage[] {
    return [...this.#system, ...this.#messages];
  }

  /**
   * Says something to the model, which answers. Both become part of the conversation once the answer has ended;
   * what is stopped before leaves no trace.
   *
   * @param options in the place of the conversation's
   * @throws at once UsageError for options that make no sense; from the iteration or `result()` also UsageError while
   *   another answer is under way, or when the conversation has gone on since
   */
  send(content: string, options: GenerateOptions = {}): TextStream {
    const said: ChatMessage = { role: 'user', content };
    const before = this.#messages;
    const ids = this.#model.encode([...this.messages, said], this.#template);
    const answer = this.#model.generate(ids, { ...this.#options, ...options });
    return new RunningGeneration(this.#answer(answer, said, before));
  }

  async *#answer(
    answer: TextStream,
    said: ChatMessage,
    before: readonly ChatMessage[],
  ): AsyncGenerator<TextPart, TextEnd> {
    this.#checkIdle();
    if (this.#messages !== before) {
      throw new UsageError('The conversation has gone on since this was said: say it once more.');
    }
    this.#isAnswering = true;
    try {
      yield* answer;
      const { text, finish, usage } = await answer.result();
      this.#messages = [...before, said, { role: 'assistant', content: text }];
      return { finish, usage };
    } finally {
      this.#isAnswering = false;
    }
  }

  /**
   * Takes the last answers back, and what they answered.
   *
   * @param turns how many, at least 1
   * @returns how many: fewer than asked when there are no more
   * @throws UsageError for another number, or while an answer is under way
   */
  undo(turns = 1): number {
    if (!(Number.isInteger(turns) && turns >= 1)) {
      throw new UsageError(`undo() takes a whole number of at least 1, not ${String(turns)}.`);
    }
    this.#checkIdle();
    const taken = Math.min(turns, this.#messages.length / 2);
    this.#messages = this.#messages.slice(0, this.#messages.length - 2 * taken);
    return taken;
  }

  /** Forgets all but the system's message. Throws UsageError while an answer is under way. */
  reset(): void {
    this.#checkIdle();
    this.#messages = [];
  }

  #checkIdle(): void {
    if (this.#isAnswering) {
      throw new UsageError('An answer is under way: wait for its end, or stop it.');
    }
  }
}
