import { DtypeError } from '@mlx-runners/mlx-core/errors';
import { createTokenDecoder, type TokenDecoder } from './token-decoders.js';
import type { Tokenizer } from './tokenizer.js';

export interface DecodeOptions {
  /** Leave special tokens out of the text. Default true. */
  skipSpecialTokens?: boolean;
}

/**
 * Decodes a growing sequence of ids, one at a time, in constant time and memory per id: only what
 * is not yet whole characters is held. The texts of all `push` calls and of `flush`, joined, are
 * what `tokenizer.decode` gives for all the ids.
 *
 * Text is cut between Unicode characters, never inside one; a grapheme cluster (an emoji with its
 * modifiers) may come in several parts.
 */
export class IncrementalDecoder {
  private readonly tokenizer: Tokenizer;
  private readonly skipSpecialTokens: boolean;
  private readonly decoder: TokenDecoder;

  constructor(tokenizer: Tokenizer, { skipSpecialTokens = true }: DecodeOptions = {}) {
    this.tokenizer = tokenizer;
    this.skipSpecialTokens = skipSpecialTokens;
    this.decoder = createTokenDecoder(tokenizer.decoderConfig);
  }

  /**
   * @returns the text that this id completes; often '' in the middle of a character
   * @throws DtypeError for an id that is not an integer of 0 or more
   */
  push(id: number): string {
    if (!Number.isInteger(id) || id < 0) {
      throw new DtypeError(`A token id is an integer of 0 or more, not ${String(id)}.`);
    }
    if (this.skipSpecialTokens && this.tokenizer.specialIds.has(id)) return '';
    const token = this.tokenizer.idToToken(id);
    return token === undefined ? '' : this.decoder.push(token).join('');
  }

  /** The rest; bytes of an unfinished character become U+FFFD. The decoder can then start anew. */
  flush(): string {
    return this.decoder.flush().join('');
  }
}
