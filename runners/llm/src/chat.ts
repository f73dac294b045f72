/** What `llm chat` does with a line: a command, or a message that the model answers. */
import { AbortedError, UsageError } from '@mlx-runners/mlx-core';
import type { Conversation, GeneratedText } from '@mlx-runners/lm';
import { resultJson, timing } from '@mlx-runners/lm/command-line';
import {
  interruptSignal,
  printError,
  type GenerationOptions,
  type LogOptions,
} from '@mlx-runners/runner';

const help = `/reset      forget the conversation
/undo [n]   take back the last message and its answer, or the last n
/help       show this
/exit       end (as Ctrl+D does; Ctrl+C stops an answer)
`;

export class Chat {
  readonly #conversation: Conversation;
  readonly #options: LogOptions & GenerationOptions;

  constructor(conversation: Conversation, options: LogOptions & GenerationOptions) {
    this.#conversation = conversation;
    this.#options = options;
  }

  /**
   * What is wrong with one line doesn't end the conversation.
   *
   * @param signal stops the answer
   */
  async take(text: string, signal: AbortSignal): Promise<void> {
    try {
      if (text.startsWith('/')) this.#command(text);
      else await this.#say(text, signal);
    } catch (error) {
      if (interruptSignal().aborted) throw error;
      if (error instanceof AbortedError) this.#tell('[stopped]');
      else if (error instanceof UsageError) printError(error);
      else throw error;
    }
  }

  #command(text: string): void {
    const [name, ...rest] = text.split(/\s+/);
    switch (name) {
      case '/help':
        process.stderr.write(help);
        return;
      case '/reset':
        this.#conversation.reset();
        this.#tell('[cleared]');
        return;
      case '/undo':
        this.#undo(rest);
        return;
      default:
        throw new UsageError(`There is no ${name}: /help shows what there is.`);
    }
  }

  #undo([count = '1']: string[]): void {
    if (!/^[1-9]\d*$/.test(count)) throw new UsageError('/undo takes a number of at least 1.');
    const taken = this.#conversation.undo(Number(count));
    const left = this.#conversation.messages.length;
    this.#tell(
      taken > 0 ? `[took back ${taken}, ${left} messages left]` : '[nothing to take back]',
    );
  }

  async #say(text: string, signal: AbortSignal): Promise<void> {
    const answer = await this.#answer(text, signal);
    if (this.#options.json) process.stdout.write(`${JSON.stringify(resultJson(answer))}\n`);
    if (answer.finish.reason === 'length') this.#tell(this.#cut(answer));
    this.#tell(timing(answer.usage));
  }

  /** Its text goes to stdout as it comes, and ends its line however it ends. */
  async #answer(text: string, signal: AbortSignal): Promise<GeneratedText> {
    let isLineOpen = false;
    try {
      const answer = this.#conversation.send(text, { signal });
      if (this.#options.json) return await answer.result();
      for await (const part of answer) {
        process.stdout.write(part.text);
        isLineOpen = true;
      }
      return await answer.result();
    } catch (error) {
      if (error instanceof UsageError) throw this.#withHint(error);
      throw error;
    } finally {
      if (isLineOpen) process.stdout.write('\n');
    }
  }

  /** Options were checked before: what doesn't fit is what has been said. */
  #withHint(error: UsageError): UsageError {
    const hasTurns = this.#conversation.messages.some(({ role }) => role === 'user');
    if (!hasTurns) return error;
    return new UsageError(`${error.message} /undo or /reset makes room.`, { cause: error });
  }

  #cut({ usage }: GeneratedText): string {
    const { maxTokens = Infinity } = this.#options;
    return usage.completionTokens >= maxTokens
      ? '[cut: --max-tokens]'
      : '[cut: the context is full: /undo or /reset]';
  }

  #tell(text: string): void {
    if (!this.#options.quiet) process.stderr.write(`${text}\n`);
  }
}
