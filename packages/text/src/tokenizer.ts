import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { ggufTokenizerJson, type GgufMetadata } from './gguf-tokenizer.js';
import { IncrementalDecoder, type DecodeOptions } from './incremental-decoder.js';
import { withRustSplitting, type Component } from './pre-tokenizer-parity.js';
import { scoredBpe } from './scored-bpe.js';
import type { SpecialTokens } from './special-tokens.js';
import { createTokenDecoder } from './token-decoders.js';
import { checkedTokenizerFile, isId, type TokenizerFile } from './tokenizer-file.js';
import { LibraryTokenizer } from './tokenizers-library.js';

export interface EncodeOptions {
  /** Run the file's post-processor, which adds start and end tokens. Default false. */
  addSpecialTokens?: boolean;
}

/**
 * A tokenizer.json tokenizer that gives the ids and texts of Hugging Face's Rust library.
 *
 * Encoding is the JavaScript library's, on a file whose pre-tokenizer is rewritten where the two
 * differ (pre-tokenizer-parity.ts); decoding is our own, so that streamed and whole text are one.
 * `truncation` and `padding` of the file are ignored, and no spaces are "cleaned up".
 */
export class Tokenizer {
  /** Ids of the added tokens marked special. */
  readonly specialIds: ReadonlySet<number>;
  /** Ids of the tokens that begin and end texts and turns, as far as the files name them. */
  readonly specialTokens: Readonly<SpecialTokens>;
  /** How many tokens there are, added ones included; a model's logits may have more columns. */
  readonly vocabSize: number;
  /** The file's `decoder`, for IncrementalDecoder. */
  readonly decoderConfig: Component | null;
  private readonly library: LibraryTokenizer;
  private readonly source: string;

  private constructor(
    library: LibraryTokenizer,
    file: TokenizerFile,
    source: string,
    specialTokens: SpecialTokens,
  ) {
    this.library = library;
    this.source = source;
    this.specialTokens = specialTokens;
    this.decoderConfig = file.decoder;
    this.vocabSize = library.model.tokens_to_ids.size;
    this.specialIds = new Set(file.added_tokens.filter((t) => t.special).map((t) => t.id));
  }

  /**
   * @param json the parsed content of a tokenizer.json
   * @param source what messages call it
   * @param specialTokens which the file itself doesn't tell
   * @throws CheckpointError when it is not one, or uses a component that is not supported
   */
  static fromJson(
    json: unknown,
    source = 'tokenizer.json',
    specialTokens: SpecialTokens = {},
  ): Tokenizer {
    const file = checkedTokenizerFile(json, source);
    checkDecoder(file.decoder, source);
    const tokenizer = new Tokenizer(usableLibrary(file, source), file, source, specialTokens);
    // What the post-processor adds has to be in the vocabulary, too.
    tokenizer.encode('', { addSpecialTokens: true });
    return tokenizer;
  }

  /**
   * The tokenizer of a GGUF file: byte-level BPE or SentencePiece BPE.
   *
   * @param metadata as `mx.loadGguf` gives them
   * @param source what messages call the file
   * @throws CheckpointError when there is no tokenizer, or it is of a kind that is not supported
   */
  static fromGguf(metadata: GgufMetadata, source = 'The GGUF file'): Tokenizer {
    const { json, specialTokens } = ggufTokenizerJson(metadata, source);
    return Tokenizer.fromJson(json, source, specialTokens);
  }

  /**
   * Token ids of a text. Special tokens written out in the text are recognised, as in Python.
   * A lone surrogate counts as U+FFFD.
   *
   * @throws CheckpointError when the file has no id for a token that it uses
   */
  encode(text: string, { addSpecialTokens = false }: EncodeOptions = {}): number[] {
    let ids: number[];
    try {
      ({ ids } = this.library.encode(text, { add_special_tokens: addSpecialTokens }));
    } catch (cause) {
      throw new CheckpointError(`${this.source} can't encode this text: it is damaged.`, { cause });
    }
    if (!ids.every(isId)) {
      throw new CheckpointError(`${this.source} uses a token that is not in its vocabulary.`);
    }
    return ids;
  }

  /**
   * Text of token ids. Ids without a token give no text, as in Python; bytes that are not UTF-8
   * become U+FFFD.
   *
   * @throws DtypeError for an id that is not an integer of 0 or more
   */
  decode(ids: Iterable<number>, options: DecodeOptions = {}): string {
    const decoder = new IncrementalDecoder(this, options);
    let text = '';
    for (const id of ids) text += decoder.push(id);
    return text + decoder.flush();
  }

  tokenToId(token: string): number | undefined {
    return this.library.token_to_id(token);
  }

  /** The token as the vocabulary writes it (`'Ġhello'` in byte-level BPE, see byteLevelBytes). */
  idToToken(id: number): string | undefined {
    return this.library.id_to_token(id);
  }
}

function checkDecoder(decoder: Component | null, source: string): void {
  try {
    createTokenDecoder(decoder);
  } catch (cause) {
    const reason = cause instanceof CheckpointError ? cause.message : 'its decoder is damaged.';
    throw new CheckpointError(`${source} is no usable tokenizer: ${reason}`, { cause });
  }
}

/** The parts that the library fails on, besides the model. */
const PARTS = ['normalizer', 'pre_tokenizer', 'post_processor'] as const;

/** The library's messages are of its own workings: the part without which it works is named instead. */
function usableLibrary(file: TokenizerFile, source: string): LibraryTokenizer {
  try {
    return newLibrary(file);
  } catch (cause) {
    const damaged = PARTS.find((part) => {
      try {
        return newLibrary({ ...file, [part]: null });
      } catch {
        return false;
      }
    });
    throw new CheckpointError(
      `${source} is no usable tokenizer: its ${damaged ?? 'model'} is damaged or of an unknown kind.`,
      { cause },
    );
  }
}

function newLibrary(file: TokenizerFile): LibraryTokenizer {
  const preTokenizer = file.pre_tokenizer && withRustSplitting(file.pre_tokenizer);
  const library = new LibraryTokenizer({ ...file, pre_tokenizer: preTokenizer, decoder: null }, {});
  const { scores } = file.model;
  if (scores) library.model.bpe = scoredBpe(library.model.tokens_to_ids, scores);
  return library;
}
