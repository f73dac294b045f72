import { checkRegularFile, CheckpointError, printable, systemReason } from '@mlx-runners/mlx-core';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { IncrementalDecoder, type DecodeOptions } from './incremental-decoder.js';
import { withRustSplitting, type Component } from './pre-tokenizer-parity.js';
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
  /** How many tokens there are, added ones included; a model's logits may have more columns. */
  readonly vocabSize: number;
  /** The file's `decoder`, for IncrementalDecoder. */
  readonly decoderConfig: Component | null;
  private readonly library: LibraryTokenizer;
  private readonly source: string;

  private constructor(library: LibraryTokenizer, file: TokenizerFile, source: string) {
    this.library = library;
    this.source = source;
    this.decoderConfig = file.decoder;
    this.vocabSize = library.model.tokens_to_ids.size;
    this.specialIds = new Set(file.added_tokens.filter((t) => t.special).map((t) => t.id));
  }

  /**
   * @param json the parsed content of a tokenizer.json
   * @param source what messages call it
   * @throws CheckpointError when it is not one, or uses a component that is not supported
   */
  static fromJson(json: unknown, source = 'tokenizer.json'): Tokenizer {
    const file = checkedTokenizerFile(json, source);
    checkDecoder(file.decoder, source);
    const tokenizer = new Tokenizer(usableLibrary(file, source), file, source);
    // What the post-processor adds has to be in the vocabulary, too.
    tokenizer.encode('', { addSpecialTokens: true });
    return tokenizer;
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

/**
 * Reads a tokenizer.json.
 *
 * @param path the file, or the folder that holds it
 * @throws CheckpointError when there is none, or it can't be used
 */
export async function loadTokenizer(path: string): Promise<Tokenizer> {
  const isFolder = (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
  const file = isFolder ? join(path, 'tokenizer.json') : path;
  let text: string;
  try {
    checkRegularFile(file);
    text = await readFile(file, 'utf8');
  } catch (cause) {
    if (cause instanceof CheckpointError) throw cause;
    throw new CheckpointError(`${file} can't be read: ${systemReason(cause)}.`, { cause });
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new CheckpointError(`${file} is not JSON: ${printable((cause as Error).message)}`, {
      cause,
    });
  }
  return Tokenizer.fromJson(json, file);
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
  return new LibraryTokenizer({ ...file, pre_tokenizer: preTokenizer, decoder: null }, {});
}
