import { UsageError } from '@mlx-runners/mlx-core/errors';
import { IncrementalDecoder, type Tokenizer } from '@mlx-runners/text';
import { StopStrings } from './stop-strings.js';

/** Why a completion ended: at a token, at a text, or because it was as long as it may be. */
export type Finish =
  | { reason: 'stop'; stopId: number }
  | { reason: 'stop'; stopString: string }
  | { reason: 'length' };

export interface CompletionOptions {
  tokenizer: Tokenizer;
  /** Tokens that end it; none of their text is put out. See `stopIds`. */
  stopIds: ReadonlySet<number>;
  /** Texts that end it; none of their text is put out. */
  stopStrings?: readonly string[];
  /** How many tokens it may have, a stop token not counted. */
  maxTokens: number;
  /**
   * The last token of the text that it continues: it then keeps a space at its beginning, which decoders of
   * SentencePiece drop where a text begins.
   */
  continued?: number;
}

/**
 * The text of one completion as its tokens come, and where it ends.
 *
 * All texts of `push` and `finish` joined are the decoded tokens, up to the stop token or stop string.
 */
export class Completion {
  /** Why it has ended; undefined as long as it goes on. */
  finish: Finish | undefined;
  /** How many tokens it has. */
  tokens = 0;
  private readonly decoder: IncrementalDecoder;
  private readonly stops: StopStrings;
  private readonly stopIds: ReadonlySet<number>;
  private readonly maxTokens: number;

  /** @throws UsageError for stop strings or a length that make no sense */
  constructor({ tokenizer, stopIds, stopStrings = [], maxTokens, continued }: CompletionOptions) {
    if (!(maxTokens === Infinity || (Number.isInteger(maxTokens) && maxTokens >= 0))) {
      throw new UsageError(`maxTokens must be an integer of 0 or more, not ${String(maxTokens)}.`);
    }
    this.decoder = new IncrementalDecoder(tokenizer);
    if (continued !== undefined) this.decoder.push(continued);
    this.stops = new StopStrings(stopStrings);
    this.stopIds = stopIds;
    this.maxTokens = maxTokens;
    if (maxTokens === 0) this.finish = { reason: 'length' };
  }

  /**
   * Takes the next token.
   *
   * @returns the text that can be put out now, often ''
   * @throws UsageError once the completion has ended
   */
  push(id: number): string {
    if (this.finish) throw new UsageError('The completion has ended: it takes no more tokens.');
    if (this.stopIds.has(id)) return this.end({ reason: 'stop', stopId: id });
    this.tokens++;
    const text = this.add(this.decoder.push(id));
    return this.finish || this.tokens < this.maxTokens
      ? text
      : text + this.end({ reason: 'length' });
  }

  /** Ends it where the context has no room for more. @returns the text that was held back */
  endAtLimit(): string {
    return this.finish ? '' : this.end({ reason: 'length' });
  }

  /** Ends it before its time, as when it is cancelled. @returns the text that was held back */
  close(): string {
    return this.finish
      ? ''
      : this.add(this.decoder.flush()) + (this.finish ? '' : this.stops.flush());
  }

  /** An unfinished character may complete a stop string, which then counts. */
  private end(finish: Finish): string {
    const text = this.add(this.decoder.flush());
    if (this.finish) return text;
    this.finish = finish;
    return text + this.stops.flush();
  }

  private add(piece: string): string {
    const { text, stop } = this.stops.push(piece);
    if (stop !== undefined) this.finish = { reason: 'stop', stopString: stop };
    return text;
  }
}
