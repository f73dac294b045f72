import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { IncrementalDecoder, type DecodeOptions } from './incremental-decoder.js';
import { withRustSplitting, type Component } from './pre-tokenizer-parity.js';
import { createTokenDecoder } from './token-decoders.js';
import { LibraryTokenizer } from './tokenizers-library.js';

export interface EncodeOptions {
  /** Run the file's post-processor, which adds start and end tokens. Default false. */
  addSpecialTokens?: boolean;
}

interface AddedToken {
  id: number;
  content: string;
  special?: boolean;
}

/** The parts of a tokenizer.json that are read here; the library reads the rest. */
interface TokenizerFile {
  added_tokens: AddedToken[];
  pre_tokenizer: Component | null;
  decoder: Component | null;
  model: { type?: string; vocab: Record<string, number> | [string, number][]; merges?: unknown };
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

  private constructor(library: LibraryTokenizer, file: TokenizerFile) {
    this.library = library;
    this.decoderConfig = file.decoder;
    this.vocabSize = library.model.tokens_to_ids.size;
    this.specialIds = new Set(file.added_tokens.filter((t) => t.special).map((t) => t.id));
  }

  /**
   * @param json the parsed content of a tokenizer.json
   * @throws CheckpointError when it is not one, or uses a component that is not supported
   */
  static fromJson(json: unknown): Tokenizer {
    const file = checkedFile(json);
    createTokenDecoder(file.decoder);
    try {
      const config = {
        normalizer: null,
        post_processor: null,
        ...file,
        pre_tokenizer: file.pre_tokenizer && withRustSplitting(file.pre_tokenizer),
      };
      return new Tokenizer(new LibraryTokenizer(config, {}), file);
    } catch (error) {
      throw new CheckpointError(`Unusable tokenizer.json: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  /**
   * Token ids of a text. Special tokens written out in the text are recognised, as in Python.
   * A lone surrogate counts as U+FFFD.
   */
  encode(text: string, { addSpecialTokens = false }: EncodeOptions = {}): number[] {
    return this.library.encode(text, { add_special_tokens: addSpecialTokens }).ids;
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
    text = await readFile(file, 'utf8');
  } catch (error) {
    throw new CheckpointError(`Can't read the tokenizer ${file}: ${(error as Error).message}`, {
      cause: error,
    });
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new CheckpointError(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  try {
    return Tokenizer.fromJson(json);
  } catch (error) {
    throw new CheckpointError(`${file}: ${(error as Error).message}`, { cause: error });
  }
}

function checkedFile(json: unknown): TokenizerFile {
  const wrong = (what: string) => new CheckpointError(`Unusable tokenizer.json: ${what}.`);
  if (!isObject(json)) throw wrong('it is not an object');
  const { model } = json;
  if (!isObject(model) || typeof model.vocab !== 'object' || model.vocab === null) {
    throw wrong('it has no model.vocab');
  }
  const file = {
    ...json,
    added_tokens: json.added_tokens ?? [],
    pre_tokenizer: json.pre_tokenizer ?? null,
    decoder: json.decoder ?? null,
  } as unknown as TokenizerFile;
  if (!Array.isArray(file.added_tokens) || !file.added_tokens.every(isAddedToken)) {
    throw wrong('added_tokens must be a list of { id, content }');
  }
  if (!Array.isArray(model.vocab)) checkVocabulary(file.model, wrong);
  return file;
}

/** The library would take wrong ids as they are. Merges are not looked up: that would cost half of the load time. */
function checkVocabulary(model: TokenizerFile['model'], wrong: (what: string) => Error): void {
  if (!Object.values(model.vocab).every(isId)) throw wrong('model.vocab has ids that are no ids');
  if (model.type === 'BPE' && !Array.isArray(model.merges)) throw wrong('it has no model.merges');
}

function isAddedToken(value: unknown): value is AddedToken {
  return isObject(value) && isId(value.id) && typeof value.content === 'string';
}

function isId(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
